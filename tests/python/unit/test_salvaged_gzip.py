# SPDX-License-Identifier: Apache-2.0
"""SalvagedGzip reads what Python's gzip reads, and of a damaged file what lies before the damage."""

from __future__ import annotations

import gzip
import io
import random

import pytest

from fastprof.importers.salvaged_gzip import SalvagedGzip

TEXT = bytes(random.Random(1).choices(range(97, 105), k=300_000))
PACKED = gzip.compress(TEXT)


def read_in_pieces(packed: bytes, size: int) -> tuple[bytes, str]:
    file = SalvagedGzip(io.BytesIO(packed))
    pieces: list[bytes] = []
    while piece := file.read(size):
        assert len(piece) <= size
        pieces.append(piece)
    assert all(len(piece) == size for piece in pieces[:-1])
    assert file.read(size) == b""
    return b"".join(pieces), file.damage


@pytest.mark.parametrize("size", [1000, 4097, 299_999, 300_000, 300_001, 1 << 22])
def test_a_whole_file_is_read_in_pieces_of_any_size(size: int) -> None:
    assert read_in_pieces(PACKED, size) == (TEXT, "")


def test_several_members_and_padding_are_read_as_by_python() -> None:
    for packed in (
        PACKED + gzip.compress(b"second") + gzip.compress(b"") + gzip.compress(b"last"),
        gzip.compress(b"first") + bytes(100),
        gzip.compress(b"first") + bytes(3) + gzip.compress(b"second"),
        gzip.compress(b""),
    ):
        assert read_in_pieces(packed, 50_000) == (gzip.decompress(packed), "")


def test_what_lies_before_the_damage_is_read() -> None:
    for kept in (11, 100, len(PACKED) // 2, len(PACKED) - 9):
        text, damage = read_in_pieces(PACKED[:kept], 1 << 16)
        assert TEXT.startswith(text) and len(text) >= 2 * (kept - 2000)
        whole_reads = len(text) >> 16 << 16
        assert damage == (
            f"damaged gzip data after about {whole_reads} decompressed bytes: "
            "the file ends within the compressed data"
        )
    broken = bytearray(PACKED)
    broken[len(PACKED) // 2 : len(PACKED) // 2 + 40] = bytes(range(200, 240))
    text, damage = read_in_pieces(bytes(broken), 1 << 16)
    assert len(text) > 100_000 and TEXT.startswith(text[:100_000])
    assert damage.startswith("damaged gzip data after about ") and "Error" in damage
    behind = SalvagedGzip(io.BytesIO(gzip.compress(b"first") + b"no gzip"))
    assert behind.read(100) == b"first" and "incorrect header" in behind.damage
    behind.seek(0)
    assert behind.damage == ""  # so far
