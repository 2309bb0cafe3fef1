# SPDX-License-Identifier: Apache-2.0
"""Read a whole file, the JSON object in it, or its lines, within the limits of a source."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from fastprof.base import errors
from fastprof.importers.source import Source

__all__ = ["JSON_BYTES_A_BYTE", "json_object", "text_lines", "whole_file"]

_PIECE_BYTES = 1 << 22
JSON_BYTES_A_BYTE = 16  # what json.loads() takes


def whole_file(source: Source, memory_bytes_a_byte: int) -> bytes:
    """Return all bytes of the file. memory_bytes_a_byte: what decoding them takes, checked against the budget.

    Raises errors.FormatError if that is too much.
    """
    pieces, size = [], 0
    while piece := source.read(_PIECE_BYTES):
        pieces.append(piece)
        size += len(piece)
        source.budget.check(memory_bytes_a_byte * size)
    return b"".join(pieces)


def json_object(source: Source) -> dict[str, Any]:
    """Return the object that the file contains. Raises errors.FormatError if it is no JSON object, or too large."""
    text = whole_file(source, JSON_BYTES_A_BYTE)
    try:
        found = json.loads(text)
    except ValueError as error:
        if isinstance(error, json.JSONDecodeError) and error.pos >= len(error.doc.rstrip()):
            raise errors.FormatError(
                f"{source.path}: the file is truncated: it ends after {len(text)} bytes, within the profile. "
                "Its samples cannot be read in part: copy or record it again."
            ) from None
        raise errors.FormatError(f"{source.path}: invalid JSON: {error}") from None
    if not isinstance(found, dict):
        raise errors.FormatError(f"{source.path}: expected a JSON object")
    return found


def text_lines(source: Source) -> Iterator[str]:
    """Yield the lines of a text, without the newlines that separate them. Invalid UTF-8 is replaced."""
    rest = b""
    while piece := source.read(_PIECE_BYTES):
        *whole, rest = (rest + piece).split(b"\n")
        source.budget.check(len(rest))
        for line in whole:
            yield line.decode("utf-8", "replace")
    if rest:
        yield rest.decode("utf-8", "replace")
