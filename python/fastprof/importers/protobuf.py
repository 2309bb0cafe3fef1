# SPDX-License-Identifier: Apache-2.0
"""Protocol buffers on the wire: fields of a message, and the messages of a stream.

Format: https://protobuf.dev/programming-guides/encoding; groups, long out of use, are refused.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any

from fastprof.base import errors
from fastprof.importers.source import Source

__all__ = ["fields", "real", "signed", "text", "top_level_messages", "varint"]

VARINT, FIXED64, LENGTH, FIXED32 = 0, 1, 2, 5
_PIECE_BYTES = 1 << 20
_DOUBLE = struct.Struct("<d")
_FIXED64 = struct.Struct("<Q")
_FIXED32 = struct.Struct("<I")


def varint(data: bytes, at: int, end: int) -> tuple[int, int]:
    """(value, position behind it); FormatError when it is cut short or longer than 64 bits."""
    value = shift = 0
    while at < end:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value & 0xFFFFFFFFFFFFFFFF, at
        shift += 7
        if shift >= 70:
            raise errors.FormatError("a number of more than 10 bytes")
    raise errors.FormatError("a number is cut short")


def fields(data: bytes) -> Iterator[tuple[int, Any]]:
    """(field number, value) in order: int for varint and fixed fields, bytes for the others."""
    at, end = 0, len(data)
    while at < end:
        tag = data[at]
        if tag < 0x80:
            at += 1
        else:
            tag, at = varint(data, at, end)
        wire = tag & 7
        if wire == VARINT:
            if at < end and data[at] < 0x80:
                yield tag >> 3, data[at]
                at += 1
            else:
                value, at = varint(data, at, end)
                yield tag >> 3, value
        elif wire == LENGTH:
            size, at = varint(data, at, end)
            if size > end - at:
                raise errors.FormatError(f"field {tag >> 3} of {size} bytes is cut short")
            yield tag >> 3, data[at : at + size]
            at += size
        elif wire in (FIXED64, FIXED32):
            form = _FIXED64 if wire == FIXED64 else _FIXED32
            if form.size > end - at:
                raise errors.FormatError(f"field {tag >> 3} is cut short")
            yield tag >> 3, form.unpack_from(data, at)[0]
            at += form.size
        else:
            raise errors.FormatError(f"field {tag >> 3} has wire type {wire}")


def signed(value: Any) -> int:
    """The int64 behind a number."""
    number = whole(value)
    return number - (1 << 64) if number >= 1 << 63 else number


def whole(value: Any) -> int:
    """The value, which must be a number."""
    if type(value) is not int:
        raise errors.FormatError("a number was expected, not bytes")
    return value


def real(value: Any) -> float:
    """The double behind a fixed64 number."""
    made: float = _DOUBLE.unpack(_FIXED64.pack(whole(value)))[0]
    return made


def message(value: Any) -> bytes:
    """The value, which must be bytes."""
    if type(value) is not bytes:
        raise errors.FormatError("bytes were expected, not a number")
    return value


def text(value: Any) -> str:
    """The text of a field; bytes that are not UTF-8 are replaced."""
    return message(value).decode("utf-8", "replace")


def top_level_messages(
    source: Source, number: int, max_message_bytes: int = 64 << 20
) -> Iterator[tuple[int, bytes]]:
    """(offset, bytes) of each message that is field `number` of a stream, read piece by piece.

    Raises errors.FormatError with the offset for anything else at the top level.
    """
    expected = number << 3 | LENGTH
    data, at, passed = b"", 0, 0
    while True:
        if len(data) - at < 16:
            passed += at
            data, at = data[at:] + source.read(_PIECE_BYTES), 0
            if not data:
                return
        offset = passed + at
        try:
            tag, after = varint(data, at, len(data))
            size, after = varint(data, after, len(data)) if tag == expected else (0, after)
        except errors.FormatError as error:
            raise errors.FormatError(f"{source.path}: offset {offset}: {error}") from None
        if tag != expected:
            raise errors.FormatError(
                f"{source.path}: offset {offset}: field {tag >> 3} where a packet was expected"
            )
        if size > max_message_bytes:
            raise errors.FormatError(
                f"{source.path}: offset {offset}: a packet of {size} bytes, "
                f"more than the {max_message_bytes} allowed"
            )
        missing = size - (len(data) - after)
        if missing > 0:
            passed += at
            after -= at
            data, at = data[at:] + source.read(max(missing, _PIECE_BYTES)), 0
            if len(data) - after < size:
                raise errors.FormatError(
                    f"{source.path}: offset {offset}: a packet of {size} bytes is cut short"
                )
        yield offset, data[after : after + size]
        at = after + size
