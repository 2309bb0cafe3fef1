# SPDX-License-Identifier: Apache-2.0
"""Addresses of exported functions and data in a running process, from its memory map and the ELF files in it.

Source of the layout: System V ABI, "Object Files" (ELF-64), https://gabi.xinuos.com.
"""

from __future__ import annotations

import mmap
import os
import re
import struct
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from fastprof.base import errors

__all__ = ["Symbol", "addresses_of", "symbols_of"]

# Files that may define what is looked for: the program itself, libpython, the C library (glibc, musl).
_FILES = re.compile(r"/(libpython|libc[.-]|ld-musl|libc\.musl)[^/]*$")
_PAGE_MASK = ~0xFFF
_LOAD, _DYNAMIC_SYMBOLS, _DATA, _FUNCTION = 1, 11, 1, 2


class Symbol(NamedTuple):
    """A function or a variable in the memory of a process."""

    address: int
    size_bytes: int


def addresses_of(pid: int, names: Iterable[str]) -> dict[str, int]:
    """Return the addresses of functions and data in a process, by name; see symbols_of()."""
    return {name: symbol.address for name, symbol in symbols_of(pid, names).items()}


def symbols_of(pid: int, names: Iterable[str]) -> dict[str, Symbol]:
    """Return what a process exports under some names; those that it does not export are left out.

    Raises OSError if its memory map or a file cannot be read.
    """
    wanted = {name.encode() for name in names}
    executable = os.readlink(f"/proc/{pid}/exe")
    found: dict[str, Symbol] = {}
    for path, start in _mapped_from_their_begin(pid):
        if path != executable and not _FILES.search(path):
            continue
        # Through the process, whose files may be other ones than ours, or replaced meanwhile. In a root folder (chroot)
        # inside of ours, the map has the paths that we see.
        opened = f"/proc/{pid}/exe" if path == executable else f"/proc/{pid}/root{path}"
        if not os.path.exists(opened):
            opened = path
        for name, symbol in _exported(opened, start, wanted):
            found.setdefault(name, symbol)
    return found


def _mapped_from_their_begin(pid: int) -> Iterator[tuple[str, int]]:
    with open(f"/proc/{pid}/maps", encoding="utf-8", errors="surrogateescape") as file:
        for line in file:
            fields = line.rstrip("\n").split(maxsplit=5)
            if len(fields) == 6 and int(fields[2], 16) == 0 and fields[5].startswith("/"):
                yield fields[5], int(fields[0].partition("-")[0], 16)


def _exported(path: str, start: int, wanted: set[bytes]) -> Iterator[tuple[str, Symbol]]:
    """Yield what the file, mapped at `start`, exports of the wanted functions and data."""
    with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ) as data:
        if data[:6] != b"\x7fELF\x02\x01":
            raise errors.FormatError(f"{path} is no 64-bit little-endian ELF file")
        try:
            programs_at, sections_at = struct.unpack_from("<QQ", data, 32)
            program_size, programs, section_size, sections = struct.unpack_from("<4H", data, 54)
            first = next(
                address
                for kind, _, offset, address in (
                    struct.unpack_from("<IIQQ", data, programs_at + i * program_size)
                    for i in range(programs)
                )
                if kind == _LOAD and offset == 0
            )
            bias = start - (first & _PAGE_MASK)
            headers = [
                struct.unpack_from("<IIQQQQIIQQ", data, sections_at + i * section_size)
                for i in range(sections)
            ]
            for _, kind, _, _, offset, size, link, _, _, _ in headers:
                if kind != _DYNAMIC_SYMBOLS:
                    continue
                texts = headers[link][4]
                for symbol in struct.iter_unpack("<IBBHQQ", data[offset : offset + size]):
                    name_at, info, _, section, value, size_bytes = symbol
                    if info & 15 not in (_DATA, _FUNCTION) or not section:
                        continue
                    name = data[texts + name_at : data.find(b"\0", texts + name_at)]
                    if name in wanted:
                        yield name.decode(), Symbol(bias + value, size_bytes)
        except (struct.error, StopIteration, IndexError) as error:
            raise errors.FormatError(f"{path} is a damaged ELF file: {error}") from error
