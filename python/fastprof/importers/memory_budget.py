# SPDX-License-Identifier: Apache-2.0
"""MemoryBudget: how much memory reading one trace may take."""

from __future__ import annotations

from fastprof.base import errors

__all__ = ["DEFAULT_MAX_MEMORY_BYTES", "JSON_BYTES_A_CHARACTER", "MemoryBudget"]

DEFAULT_MAX_MEMORY_BYTES = 4 << 30

# Python objects of a JSON text take up to this many bytes a character: an empty list "[]," is a
# list object of 56 bytes, its 16 bytes for the garbage collector, and a reference.
JSON_BYTES_A_CHARACTER = 32
_LEAST_PIECE_BYTES = 1 << 12


class MemoryBudget:
    """A limit in bytes for what a reader keeps. Not a measurement: readers report what they keep.

    The estimates are upper bounds for what a file can make of its bytes, so the true size is
    lower. Raises errors.FormatError.
    """

    def __init__(self, where: str, limit_bytes: int) -> None:
        if limit_bytes <= 0:
            raise errors.ValueError(
                f"max_memory_bytes is {limit_bytes}: give a positive number of bytes"
            )
        self.where = where
        self.limit_bytes = limit_bytes
        self._kept_bytes = 0

    @property
    def max_json_chars(self) -> int:
        """The longest JSON text that may be decoded at once."""
        return max(self.limit_bytes // (2 * JSON_BYTES_A_CHARACTER), _LEAST_PIECE_BYTES)

    def piece_bytes(self, most: int) -> int:
        """How much of a file to read at a time, at most `most`."""
        return max(min(most, self.max_json_chars), _LEAST_PIECE_BYTES)

    def keep(self, size_bytes: int) -> None:
        """Account for memory that stays until the table is made."""
        self._kept_bytes += size_bytes
        self.check(0)

    def check(self, more_bytes: int) -> None:
        """Raise if what is kept and `more_bytes` exceed the limit."""
        if self._kept_bytes + more_bytes > self.limit_bytes:
            raise errors.FormatError(
                f"{self.where}: reading it takes more than {self.limit_bytes} bytes of memory; "
                "raise max_memory_bytes (--max-memory-mb) if you trust the file"
            )
