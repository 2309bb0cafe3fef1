# SPDX-License-Identifier: Apache-2.0
"""Importers: read trace files into tables. Files are untrusted: errors name the place, and memory is bounded."""

from fastprof.importers.any_format import load

__all__ = ["load"]
