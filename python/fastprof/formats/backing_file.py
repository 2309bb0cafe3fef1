# SPDX-License-Identifier: Apache-2.0
"""Backing files of profiles: the first bytes. Everything else of the format is native, see docs/backing_file.md."""

from __future__ import annotations

__all__ = ["BACKING_MAGIC"]

BACKING_MAGIC = b"fastprof\x02store\r\n"
