# SPDX-License-Identifier: Apache-2.0
"""Source and the messages read from it: positions in files that are read in pieces, as errors tell them."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from fastprof import errors
from fastprof.importers import protobuf
from fastprof.importers.protobuf import top_level_messages
from fastprof.importers.source import Source


def test_the_offset_is_that_of_what_has_been_read(tmp_path: Path) -> None:
    (tmp_path / "t").write_bytes(bytes(100))
    with Source(tmp_path / "t", 1 << 30, 1 << 30) as source:
        assert source.offset == 0
        source.read(30)
        assert source.offset == 30


@pytest.mark.parametrize("count", [1, 2, 7, 8, 50])
def test_offsets_of_messages_and_of_damage(count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(protobuf, "_PIECE_BYTES", 64)
    packet = b"\x0a\x1f" + bytes(
        31
    )  # field 1; 33 bytes in all, which lie in two pieces now and then
    with Source(io.BytesIO(packet * count), 1 << 30, 1 << 30) as source:
        found = [offset for offset, _ in top_level_messages(source, 1)]
    assert found == [33 * i for i in range(count)]
    with (
        Source(io.BytesIO(packet * count + b"\x12" + bytes(40)), 1 << 30, 1 << 30) as source,
        pytest.raises(errors.FormatError, match=f"offset {33 * count}: expected a packet"),
    ):
        list(top_level_messages(source, 1))
