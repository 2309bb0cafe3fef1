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


@pytest.mark.parametrize("size", [1, 2, 3, 100])
def test_small_pieces(size: int) -> None:
    assert read_in_pieces(gzip.compress(TEXT[:7]), size) == (TEXT[:7], "")


def test_several_members_and_padding_are_read_as_by_python() -> None:
    for packed in (
        PACKED + gzip.compress(b"second") + gzip.compress(b"") + gzip.compress(b"last"),
        gzip.compress(b"first") + bytes(100),
        gzip.compress(b"first") + bytes(3) + gzip.compress(b"second"),
        gzip.compress(b""),
    ):
        assert read_in_pieces(packed, 50_000) == (gzip.decompress(packed), "")


def test_a_file_can_be_read_again_from_where_it_began() -> None:
    raw = io.BytesIO(b"head" + PACKED)
    raw.seek(4)
    file = SalvagedGzip(raw)
    assert file.read(10) == TEXT[:10] and file.read(10) == TEXT[10:20]
    assert file.seek(0) == 0
    assert file.read(1 << 20) == TEXT and file.damage == ""
    file.close()
    assert not raw.closed


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


def salvaged(data: bytes, size: int = 7) -> tuple[bytes, str]:
    """Read in small pieces; return everything and the damage."""
    raw = io.BytesIO(b"head" + data)
    raw.seek(4)
    stream = SalvagedGzip(raw)
    pieces = []
    while piece := stream.read(size):
        assert len(piece) <= size
        pieces.append(piece)
    whole, damage = b"".join(pieces), stream.damage
    assert stream.seek(0) == 0 and stream.damage == ""
    assert (
        stream.read(1 << 20) == whole
        and stream.read(1) == b""
        and bool(stream.damage) == bool(damage)
    )
    stream.close()
    assert not raw.closed
    return whole, damage


def test_members_and_padding_of_gzip_data() -> None:
    text = bytes(range(256)) * 20
    one, two = gzip.compress(text), gzip.compress(b"second")
    assert salvaged(one) == (text, "")
    assert salvaged(one + two) == (text + b"second", "")
    assert salvaged(one + b"\0" * 20 + two + b"\0" * 3) == (text + b"second", "")
    assert salvaged(gzip.compress(b"") + two) == (b"second", "")


def test_gzip_data_up_to_its_damage() -> None:
    text = random.Random(5).randbytes(
        3000
    )  # stored, so that a place in the text is a place in the data
    data = gzip.compress(text)
    for cut in (100, 1000, len(data) - 9):
        whole, damage = salvaged(data[:cut])
        assert text.startswith(whole) and len(whole) >= min(cut, 3000) - 30
        about = len(whole) // 7 * 7  # what earlier reads returned
        assert damage == (
            f"damaged gzip data after about {about} decompressed bytes: the file ends within the compressed data"
        )
    wrong_sum = data[:-8] + bytes([data[-8] ^ 1]) + data[-7:]
    whole, damage = salvaged(wrong_sum)
    assert whole == text and "incorrect data check" in damage
    whole, damage = salvaged(data + b"no member")
    assert whole == text and "after about 2996 decompressed bytes" in damage
