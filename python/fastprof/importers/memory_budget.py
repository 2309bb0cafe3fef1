# SPDX-License-Identifier: Apache-2.0
"""MemoryBudget: bounds the memory that the reader of one trace uses."""

from __future__ import annotations

from fastprof.base import errors

__all__ = ["DEFAULT_MAX_MEMORY_BYTES", "JSON_BYTES_A_CHARACTER", "LimitError", "MemoryBudget"]

DEFAULT_MAX_MEMORY_BYTES = 4 << 30

# Upper bound of the bytes that Python objects take per character of JSON: an empty list "[]," is a
# list object of 56 bytes, 16 bytes of the garbage collector, and a reference.
JSON_BYTES_A_CHARACTER = 32
_LEAST_PIECE_BYTES = 1 << 12


class LimitError(errors.FormatError):
    """A file exceeds a limit that the caller set. The file is not damaged."""


class MemoryBudget:
    """Limit of the bytes that a reader keeps, by the reader's estimates.

    The estimates are upper bounds, so the true size is lower. Methods raise LimitError if the limit is exceeded.
    where: path of the file, for messages. limit_bytes: positive.
    """

    def __init__(self, where: str, limit_bytes: int) -> None:
        if limit_bytes <= 0:
            raise errors.ValueError(
                f"invalid max_memory_bytes {limit_bytes}. Use a positive number of bytes."
            )
        self.where = where
        self.limit_bytes = limit_bytes
        self._kept_bytes = 0

    @property
    def max_json_chars(self) -> int:
        """Maximum length of a JSON text that may be decoded at once."""
        return max(self.limit_bytes // (2 * JSON_BYTES_A_CHARACTER), _LEAST_PIECE_BYTES)

    def piece_bytes(self, most: int) -> int:
        """Return how many bytes of a file to read at a time, at most `most`."""
        return max(min(most, self.max_json_chars), _LEAST_PIECE_BYTES)

    def keep(self, size_bytes: int) -> None:
        """Account for memory that is kept until the table is complete."""
        self._kept_bytes += size_bytes
        self.check(0)

    def check(self, more_bytes: int) -> None:
        """Raise errors.FormatError if kept memory plus `more_bytes` exceeds the limit."""
        if self._kept_bytes + more_bytes > self.limit_bytes:
            raise LimitError(
                f"{self.where}: reading it takes more than {self.limit_bytes} bytes of memory; "
                "raise max_memory_bytes (--max-memory-mb) if you trust the file"
            )
