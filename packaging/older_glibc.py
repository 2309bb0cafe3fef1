# SPDX-License-Identifier: Apache-2.0
"""Let the CPython of a newer system run on an older glibc: ``older_glibc.py FILE...`` edits ELF files in place.

For tests of wheels on old systems that have no CPython >= 3.10 of their own. The C library there lacks symbol versions
that the interpreter was linked against; most are old functions under a new version (glibc 2.34 merged libpthread, for
instance). Each reference to a version after ``KEPT`` loses its version, and the requirement is marked weak, so that
the loader of the old system takes the function it has. Functions that are missing come from ``older_glibc.cpp``, which
is preloaded. Only the interpreter is edited, never what is tested.
"""

from __future__ import annotations

import re
import struct
import sys
from pathlib import Path

KEPT = (2, 28)
OLDEST = b"GLIBC_2.2.5"  # of x86-64; the string is in every file that refers to libc.so.6
VERSYM, VERNEED = 0x6FFFFFFF, 0x6FFFFFFE  # section types


def elf_hash(name: bytes) -> int:
    """Return the hash that the loader compares before names (System V ABI, "Hash Table Section")."""
    value = 0
    for byte in name:
        value = (value << 4) + byte
        high = value & 0xF0000000
        value = (value ^ high >> 24) & ~high
    return value


def sections(data: bytes) -> list[tuple[int, int, int, int]]:
    """Return (type, offset, size, linked section) of each section of a 64-bit little-endian ELF file."""
    table, size, count = (
        struct.unpack_from("<Q", data, 0x28)[0],
        *struct.unpack_from("<HH", data, 0x3A),
    )
    rows = []
    for i in range(count):
        _, kind, _, _, offset, length, link = struct.unpack_from("<IIQQQQI", data, table + i * size)
        rows.append((kind, offset, length, link))
    return rows


def too_new(version: str) -> bool:
    """Whether ``version`` is one of glibc after KEPT."""
    match = re.fullmatch(r"GLIBC_(\d+)\.(\d+)(\.\d+)?", version)
    if match is None:
        return version.startswith("GLIBC_ABI_")  # demands on the loader, such as DT_RELR
    return (int(match[1]), int(match[2])) > KEPT


def relax(data: bytearray) -> set[str]:
    """Edit one ELF image; return the versions it no longer needs. Other files than ELF are left alone."""
    if data[:6] != b"\x7fELF\x02\x01":
        return set()
    all_sections = sections(data)
    by_kind = {kind: (offset, size, link) for kind, offset, size, link in all_sections}
    if VERNEED not in by_kind or VERSYM not in by_kind:
        return set()
    at, _, link = by_kind[VERNEED]
    names, names_size = all_sections[link][1:3]
    oldest = data.find(b"\0" + OLDEST + b"\0", names, names + names_size) + 1 - names
    dropped: dict[int, str] = {}
    while True:
        _, count, _, first, step = struct.unpack_from("<HHIII", data, at)
        entry = at + first
        for _ in range(count):
            _, _, index, name, following = struct.unpack_from("<IHHII", data, entry)
            end = data.index(b"\0", names + name)
            version = data[names + name : end].decode()
            if too_new(version):
                if oldest <= 0:
                    raise ValueError("no string GLIBC_2.2.5 to refer to")
                struct.pack_into("<I", data, entry, elf_hash(OLDEST))
                struct.pack_into("<I", data, entry + 8, oldest)
                dropped[index & 0x7FFF] = version
            entry += following
        if step == 0:
            break
        at += step
    offset, size, _ = by_kind[VERSYM]
    for place in range(offset, offset + size, 2):
        (index,) = struct.unpack_from("<H", data, place)
        if index & 0x7FFF in dropped:
            struct.pack_into("<H", data, place, 1)  # VER_NDX_GLOBAL: no version
    return set(dropped.values())


def relax_tree(root: Path) -> int:
    """Edit every regular ELF file below ``root``; return how many were changed."""
    changed = 0
    for path in sorted(root.rglob("*")):
        if path.is_symlink() or not path.is_file():
            continue
        with path.open("rb") as file:
            if file.read(4) != b"\x7fELF":
                continue
        data = bytearray(path.read_bytes())
        if relax(data):
            path.write_bytes(data)
            changed += 1
    return changed


if __name__ == "__main__":
    for argument in sys.argv[1:]:
        print(f"{argument}: {relax_tree(Path(argument))} files changed")
