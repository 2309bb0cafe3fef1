# SPDX-License-Identifier: Apache-2.0
"""JsonStream: decode values of a large JSON text one by one, in memory bounded by the largest value."""

from __future__ import annotations

import codecs
import json
import re
from typing import Any

from fastprof.base import errors
from fastprof.importers.memory_budget import MemoryBudget
from fastprof.importers.source import Source

__all__ = ["JsonStream", "scan_piece_bytes"]

_PIECE_BYTES = 1 << 20
_SCAN_BYTES = 1 << 22
_SPACE = re.compile(r"[ \t\n\r]*")


def scan_piece_bytes(budget: MemoryBudget) -> int:
    """Return how many bytes to read at a time for the native scanner."""
    return budget.piece_bytes(_SCAN_BYTES)


class JsonStream:
    """A cursor over the JSON text of a source.

    `value()` decodes one value with json's own scanner, which accepts bare NaN and infinities as
    floats. The source's memory budget limits the length of a value. Raises errors.FormatError with
    the byte offset and what was expected.
    """

    def __init__(self, source: Source) -> None:
        self.source = source
        self._max = source.budget.max_json_chars
        self._piece_bytes = source.budget.piece_bytes(_PIECE_BYTES)
        self._decoder = codecs.getincrementaldecoder("utf-8-sig")("strict")
        self._scan = json.JSONDecoder().raw_decode
        self._text = ""
        self._at = 0
        self._passed_bytes = 0  # number of bytes before self._text
        self._ended = False
        self.value_chars = 0  # length of the last value()

    def take_buffer(self) -> bytes:
        """Return the text that is read but not consumed; continue with give_back()."""
        data = self._text[self._at :].encode() + self._decoder.getstate()[0]
        self._text, self._at = "", 0
        return data

    def give_back(self, data: bytes, ended: bool) -> None:
        """Continue with bytes before the source's position. ended: the source has no more."""
        self._passed_bytes = self.source.offset - len(data)
        self._decoder = codecs.getincrementaldecoder("utf-8")("strict")
        self._ended = ended
        try:
            self._text, self._at = self._decoder.decode(data, ended), 0
        except UnicodeDecodeError as error:
            raise errors.FormatError(
                f"{self.source.path}: offset {self._passed_bytes + error.start}: "
                f"not UTF-8 ({error.reason})"
            ) from None

    @property
    def offset(self) -> int:
        """Byte offset of the cursor in the decompressed file."""
        before = self._text[: self._at]
        size = len(before) if before.isascii() else len(before.encode())
        return self._passed_bytes + size

    def fail(self, what: str) -> errors.FormatError:
        """Return an error that names the cursor's offset."""
        return errors.FormatError(f"{self.source.path}: offset {self.offset}: {what}")

    def _more(self, size: int = 0) -> bool:
        """Read more text, discarding what precedes the cursor; return False at the end of the file."""
        if self._ended:
            return False
        size = size or self._piece_bytes
        data = self.source.read(size)
        self._ended = len(data) < size
        try:
            text = self._decoder.decode(data, self._ended)
        except UnicodeDecodeError as error:
            start = self.source.offset - len(data) + error.start
            raise errors.FormatError(
                f"{self.source.path}: offset {start}: not UTF-8 ({error.reason})"
            ) from None
        self._passed_bytes = self.offset
        self._text = self._text[self._at :] + text
        self._at = 0
        return True

    def peek(self) -> str:
        """Skip white space and return the next character; "" at the end."""
        while True:
            match = _SPACE.match(self._text, self._at)
            assert match is not None
            self._at = match.end()
            if self._at < len(self._text):
                return self._text[self._at]
            if not self._more():
                return ""

    def take(self, character: str) -> None:
        """Skip white space and consume `character`; errors.FormatError for any other."""
        found = self.peek()
        if found != character:
            raise self.fail(f"expected {character!r}, found {found or 'the end of the file'!r}")
        self._at += 1

    def value(self) -> Any:
        """Decode and consume the value at the cursor."""
        if not self.peek():
            raise self.fail("expected a value, found the end of the file")
        wanted = self._piece_bytes
        while True:
            problem = ""
            try:
                value, end = self._scan(self._text, self._at)
            except json.JSONDecodeError as error:
                problem = f"{error.msg} ({error.pos - self._at} characters into the value)"
                if error.pos >= len(self._text) or error.msg.startswith("Unterminated string"):
                    problem = "the file ends within a value: it is truncated"
            except RecursionError:
                raise self.fail("a value is nested too deeply") from None
            except ValueError as error:
                raise self.fail(f"invalid value: {error}") from None
            # A number at the end of the text may continue in the next piece.
            if not problem and (end < len(self._text) or self._ended):
                self.value_chars = end - self._at
                self._at = end
                return value
            if len(self._text) - self._at > self._max:
                raise self.fail(
                    f"a value exceeds {self._max} characters. "
                    "Raise max_memory_bytes (--max-memory-mb) if you trust the file."
                )
            if not self._more(wanted):
                if problem:
                    raise self.fail(problem)
                continue
            wanted = min(wanted * 2, self._max, 1 << 26)

    def value_text(self) -> str:
        """Return the text of the last value(). Valid until the stream is used again."""
        return self._text[self._at - self.value_chars : self._at]

    def at_end(self) -> bool:
        """Return whether only white space is left."""
        return self.peek() == ""
