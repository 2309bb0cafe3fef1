# SPDX-License-Identifier: Apache-2.0
"""Protocol buffer wire format: fields of a message, and the messages of a stream.

Format: https://protobuf.dev/programming-guides/encoding. Groups, long deprecated, are rejected.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any

from fastprof.base import errors
from fastprof.importers.source import Source

__all__ = [
    "by_number",
    "fields",
    "message",
    "numbers",
    "real",
    "signed",
    "text",
    "top_level_messages",
    "varint",
    "whole",
]

VARINT, FIXED64, LENGTH, FIXED32 = 0, 1, 2, 5
_PIECE_BYTES = 1 << 20
_DOUBLE = struct.Struct("<d")
_FIXED64 = struct.Struct("<Q")
_FIXED32 = struct.Struct("<I")


def varint(data: bytes, at: int, end: int) -> tuple[int, int]:
    """Decode the varint at data[at:end]; return (value, next position).

    Raises errors.FormatError if it is truncated or longer than 10 bytes.
    """
    value = shift = 0
    while at < end:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value & 0xFFFFFFFFFFFFFFFF, at
        shift += 7
        if shift >= 70:
            raise errors.FormatError("a varint exceeds 10 bytes")
    raise errors.FormatError("a varint is truncated")


def fields(data: bytes) -> Iterator[tuple[int, Any]]:
    """Yield (field number, value) in order: int for varint and fixed fields, else bytes.

    Raises errors.FormatError for an invalid message.
    """
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
                raise errors.FormatError(f"field {tag >> 3} of {size} bytes is truncated")
            yield tag >> 3, data[at : at + size]
            at += size
        elif wire in (FIXED64, FIXED32):
            form = _FIXED64 if wire == FIXED64 else _FIXED32
            if form.size > end - at:
                raise errors.FormatError(f"field {tag >> 3} is truncated")
            yield tag >> 3, form.unpack_from(data, at)[0]
            at += form.size
        else:
            raise errors.FormatError(f"field {tag >> 3} has the unsupported wire type {wire}")


def by_number(data: bytes, repeated: frozenset[int] = frozenset()) -> dict[int, Any]:
    """Return the fields of a message by number: lists for `repeated` ones, else the last value."""
    found: dict[int, Any] = {}
    for number, value in fields(data):
        if number not in repeated:
            found[number] = value
        elif number in found:
            found[number].append(value)
        else:
            found[number] = [value]
    return found


def numbers(values: list[Any]) -> list[int]:
    """Return the numbers of a repeated field, single or packed as varints."""
    found: list[int] = []
    for value in values:
        if type(value) is int:
            found.append(value)
            continue
        at, end = 0, len(value)
        while at < end:
            number, at = varint(value, at, end)
            found.append(number)
    return found


def signed(value: Any) -> int:
    """Return a decoded number as int64."""
    number = whole(value)
    return number - (1 << 64) if number >= 1 << 63 else number


def whole(value: Any) -> int:
    """Return a field's value, which must be a number. Raises errors.FormatError if it is bytes."""
    if type(value) is not int:
        raise errors.FormatError("expected a number, found bytes")
    return value


def real(value: Any) -> float:
    """Return the double encoded in a fixed64 number."""
    made: float = _DOUBLE.unpack(_FIXED64.pack(whole(value)))[0]
    return made


def message(value: Any) -> bytes:
    """Return a field's value, which must be bytes. Raises errors.FormatError if it is a number."""
    if type(value) is not bytes:
        raise errors.FormatError("expected bytes, found a number")
    return value


def text(value: Any) -> str:
    """Return a field's text, with invalid UTF-8 replaced."""
    return message(value).decode("utf-8", "replace")


def top_level_messages(
    source: Source, number: int, max_message_bytes: int = 64 << 20, data: bytes = b""
) -> Iterator[tuple[int, bytes]]:
    """Yield (offset, bytes) of each message in field `number` of a stream, read in pieces.

    data: bytes before the source's position that were read but not consumed. Raises errors.FormatError with the
    offset for any other field at the top level, and for a message that exceeds max_message_bytes.
    """
    expected = number << 3 | LENGTH
    at, passed = 0, source.offset - len(data)
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
                f"{source.path}: offset {offset}: expected a packet, found field {tag >> 3}"
            )
        if size > max_message_bytes:
            raise errors.FormatError(
                f"{source.path}: offset {offset}: a packet of {size} bytes exceeds the limit of "
                f"{max_message_bytes}"
            )
        missing = size - (len(data) - after)
        if missing > 0:
            passed += at
            after -= at
            data, at = data[at:] + source.read(max(missing, _PIECE_BYTES)), 0
            if len(data) - after < size:
                raise errors.FormatError(
                    f"{source.path}: offset {offset}: a packet of {size} bytes is truncated"
                )
        yield offset, data[after : after + size]
        at = after + size
