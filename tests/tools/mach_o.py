# SPDX-License-Identifier: Apache-2.0
"""Reads 64-bit Mach-O files: sections, symbols and load commands."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import NamedTuple

_LC_SEGMENT_64, _LC_SYMTAB = 0x19, 0x2
_N_STAB, _N_TYPE, _N_UNDF = 0xE0, 0x0E, 0
_DYNAMIC_LOOKUP = 0xFE  # instead of the number of a library


class Section(NamedTuple):
    """A section of an image. data: its bytes in the file."""

    segment: str
    name: str
    data: bytes


def commands(image: bytes) -> Iterator[tuple[int, int]]:
    """Yield (number, offset) of the load commands of an image."""
    _magic, _cpu, _subtype, _kind, count, _size, _flags, _reserved = struct.unpack_from(
        "<8I", image
    )
    at = 32
    for _ in range(count):
        number, size = struct.unpack_from("<2I", image, at)
        yield number, at
        at += size


def sections(image: bytes) -> Iterator[Section]:
    """Yield the sections of an image."""
    for number, at in commands(image):
        if number != _LC_SEGMENT_64:
            continue
        (count,) = struct.unpack_from("<I", image, at + 64)
        for i in range(count):
            fields = struct.unpack_from("<16s16sQQI", image, at + 72 + 80 * i)
            name, segment = (field.rstrip(b"\0").decode() for field in fields[:2])
            yield Section(segment, name, image[fields[4] : fields[4] + fields[3]])


def symbols(image: bytes) -> Iterator[tuple[str, int]]:
    """Yield (name, address) of the symbols of an image."""
    for name, _kind, _library, value in _entries(image):
        yield name, value


def left_to_loader(image: bytes) -> Iterator[str]:
    """Yield the symbols that a linked image assigns to no library, which the loader looks up in all images."""
    for name, kind, library, _value in _entries(image):
        undefined = not kind & _N_STAB and kind & _N_TYPE == _N_UNDF
        if undefined and library == _DYNAMIC_LOOKUP:
            yield name


def _entries(image: bytes) -> Iterator[tuple[str, int, int, int]]:
    """Yield (name, type, number of the library, address) of the entries of the symbol table."""
    for number, at in commands(image):
        if number != _LC_SYMTAB:
            continue
        first, count, names, _bytes = struct.unpack_from("<4I", image, at + 8)
        for i in range(count):
            name, kind, _section, flags, value = struct.unpack_from("<IBBHQ", image, first + 16 * i)
            start = names + name
            yield image[start : image.index(b"\0", start)].decode(), kind, flags >> 8, value
