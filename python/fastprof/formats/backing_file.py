# SPDX-License-Identifier: Apache-2.0
"""Signature of backing files of profiles. Native code reads the rest of the format: see docs/backing_file.md."""

from __future__ import annotations

__all__ = ["BACKING_MAGIC"]

BACKING_MAGIC = b"fastprof\x02store\r\n"
