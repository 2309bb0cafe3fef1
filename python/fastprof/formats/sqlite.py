# SPDX-License-Identifier: Apache-2.0
"""Signature of an SQLite database (https://www.sqlite.org/fileformat.html, section 1.3)."""

__all__ = ["SQLITE_MAGIC"]

SQLITE_MAGIC = b"SQLite format 3\0"
