# SPDX-License-Identifier: Apache-2.0
"""Readers of trace files, one format a file. Files are untrusted: errors name the place, memory is bounded."""

from fastprof.importers.any_format import load

__all__ = ["load"]
