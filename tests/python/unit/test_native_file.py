# SPDX-License-Identifier: Apache-2.0
"""save() and load() of fastprof's own format: nothing is lost, and damaged files raise FormatError."""

from __future__ import annotations

import gzip
import json
import random
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from own_files import rewritten
from trace_tables import every_column_table, nested_table

import fastprof
from fastprof import errors
from fastprof.formats.native_file import MAGIC, PREFIX, aligned, decode_value
from fastprof.model.table import EventTable


def assert_equal(a: EventTable, b: EventTable) -> None:
    assert a.column_names == b.column_names
    for name, column in a.to_dict().items():
        assert column.dtype == b.column(name).dtype
        np.testing.assert_array_equal(column, b.column(name))
    for name, coded in a.coded.items():
        np.testing.assert_array_equal(coded.codes, b.coded[name].codes)
        assert repr(tuple(coded.values)) == repr(tuple(b.coded[name].values))
    assert list(a.sites) == list(b.sites)
    assert list(a.tracks) == list(b.tracks)
    assert tuple(a.strings) == tuple(b.strings)
    assert (a.kernels is None) == (b.kernels is None)
    if a.kernels is not None and b.kernels is not None:
        for field in ("row", "name", "device", "duration_ns"):
            np.testing.assert_array_equal(getattr(a.kernels, field), getattr(b.kernels, field))
        assert tuple(a.kernels.names) == tuple(b.kernels.names)
    np.testing.assert_array_equal(a.payload_words, b.payload_words)
    for name in ("t0_ns", "t1_ns", "clock_error_ns", "pid", "process_name", "begin_ordered"):
        assert getattr(a, name) == getattr(b, name)
    assert a.dropped == b.dropped
    assert repr(a.metadata) == repr(b.metadata)


@pytest.mark.parametrize("suffix", ["", ".gz"])
@pytest.mark.parametrize("mmap", [False, True])
def test_every_column_comes_back(tmp_path: Path, suffix: str, mmap: bool) -> None:
    table = every_column_table()
    path = tmp_path / f"trace.fastprof{suffix}"
    fastprof.save(table, path)
    again = fastprof.load(path, mmap=mmap)
    assert_equal(table, again)
    with pytest.raises(ValueError, match="read-only"):
        again.column("start_ns")[0] = 1


def test_an_empty_table_comes_back(tmp_path: Path) -> None:
    table = EventTable({"start_ns": [], "end_ns": [], "site": []}, sites=())
    fastprof.save(table, tmp_path / "empty")
    assert_equal(table, fastprof.load(tmp_path / "empty"))


def test_blocks_can_be_mapped_as_the_layout_says(tmp_path: Path) -> None:
    table = nested_table(90)
    path = tmp_path / "t"
    fastprof.save(table, path)
    data = path.read_bytes()
    magic, version, crc, size, total = PREFIX.unpack(data[: PREFIX.size])
    assert (magic, version, total) == (MAGIC, 1, len(data))
    text = data[PREFIX.size : PREFIX.size + size]
    assert zlib.crc32(text) == crc
    for block in json.loads(text)["blocks"]:
        offset = aligned(PREFIX.size + size) + block["offset"]
        assert offset % 64 == 0
        mapped = np.memmap(path, block["dtype"], "r", offset, (block["count"],))
        name = block["name"].removeprefix("column:")
        np.testing.assert_array_equal(mapped, table.column(name))


def test_what_has_no_table_or_no_form_is_refused(tmp_path: Path) -> None:
    with pytest.raises(errors.ValueError, match="EventTable"):
        fastprof.save(3, tmp_path / "t")
    table = every_column_table().with_columns()
    table.metadata["x"] = object()
    with pytest.raises(errors.ValueError, match="cannot save a value of type object"):
        fastprof.save(table, tmp_path / "t")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "value", [{"$tuple": 1}, {"$float": "3"}, {"$dict": [1]}, {"$bytes": 7}, {"$code": "x"}]
)
def test_tags_that_are_never_written_are_refused(value: Any) -> None:
    with pytest.raises(errors.FormatError):
        decode_value(value)


def _set(*path: Any) -> Any:
    *keys, last, value = path

    def change(header: dict[str, Any]) -> None:
        place: Any = header
        for key in keys:
            place = place[key]
        place[last] = value

    return change


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (_set("blocks", 0, "count", 10**15), "does not fit"),
        (_set("blocks", 0, "count", -1), "does not fit"),
        (_set("blocks", 0, "dtype", "object"), "an unknown dtype"),
        (_set("blocks", 1, "name", "column:start_ns"), "listed twice"),
        (_set("blocks", 0, "name", "column:other"), "unknown to this version"),
        (_set("blocks", 0, "crc32", 1), "checksum"),
        (_set("blocks", 1, "offset", 0), "begins at 0, expected 192"),
        (_set("tracks", 0, [1, 2, 3, 4, 5]), "expected text"),
        (_set("sites", {"name": []}), "site"),
        (_set("sites", "line", ["x"] * 6), "not of type int"),
        (_set("coded", "stack", []), "not the index of a value"),
        (_set("kernel_names", []), "kernels"),
        (_set("scalars", "pid", 1e300), "64-bit"),
        (_set("scalars", {}), "malformed"),
        (_set("blocks", None), "malformed"),
        (_set("metadata", {"$x": 1}), "unknown tag"),
    ],
)
def test_malformed_headers_name_the_place(tmp_path: Path, change: Any, message: str) -> None:
    fastprof.save(every_column_table(), tmp_path / "t")
    path = tmp_path / "bad"
    path.write_bytes(rewritten((tmp_path / "t").read_bytes(), change))
    with pytest.raises(errors.FormatError, match=message) as caught:
        fastprof.load(path)
    assert str(path) in str(caught.value)


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"parent": [1, 0, -1]}, "form a cycle"),
        ({"parent": [5, -1, -1]}, "is not the index of a row"),
        ({"site": [0, 9, 0]}, "row 1: site"),
        ({"kind": [0, 99, 0]}, "EventKind"),
        ({"payload": [7, 7, 7], "kind": [6, 6, 6]}, "payload"),
    ],
)
def test_columns_that_point_nowhere_are_refused(
    tmp_path: Path, columns: dict[str, Any], message: str
) -> None:
    base = {"start_ns": [1, 2, 3], "end_ns": [2, 3, 4], "site": [0, 0, 0]}
    table = EventTable({**base, **columns}, sites=[fastprof.Site("a")])
    fastprof.save(table, tmp_path / "t")
    with pytest.raises(errors.FormatError, match=message):
        fastprof.load(tmp_path / "t")


def test_limits_hold(tmp_path: Path) -> None:
    fastprof.save(nested_table(300), tmp_path / "t")
    with pytest.raises(errors.FormatError, match="max_bytes"):
        fastprof.load(tmp_path / "t", max_bytes=100)
    bomb = tmp_path / "bomb.gz"
    bomb.write_bytes(gzip.compress(b"[" + b" " * 10_000_000))
    with pytest.raises(errors.FormatError, match="max_decompressed_bytes"):
        fastprof.load(bomb, max_decompressed_bytes=1_000_000)
    with pytest.raises(errors.IoError, match="cannot read"):
        fastprof.load(tmp_path / "absent")
    (tmp_path / "other").write_bytes(b"QK\x03\x04")
    with pytest.raises(errors.FormatError, match="offset 0"):
        fastprof.load(tmp_path / "other")
    (tmp_path / "void").write_bytes(b"")
    with pytest.raises(errors.FormatError, match="empty"):
        fastprof.load(tmp_path / "void")


def test_damage_anywhere_is_noticed(tmp_path: Path) -> None:
    """Truncated files and flipped bits raise FormatError, or give the same table if only padding is damaged."""
    fastprof.save(every_column_table(), tmp_path / "t")
    data = (tmp_path / "t").read_bytes()
    good = fastprof.load(tmp_path / "t")
    rng = random.Random(11)
    path = tmp_path / "bad"
    refused = 0
    for trial in range(300):
        damaged = bytearray(data)
        if trial % 3 == 0:
            del damaged[rng.randrange(len(data)) :]
        else:
            for _ in range(rng.randrange(1, 4)):
                damaged[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
        path.write_bytes(bytes(damaged))
        try:
            again = fastprof.load(path)
        except errors.FormatError:
            refused += 1
        else:
            assert_equal(good, again)
    assert refused > 250


def test_random_headers_never_escape_format_error(tmp_path: Path) -> None:
    """The checksum is computed anew for a damaged header, so that the checks behind it are reached."""
    fastprof.save(every_column_table(), tmp_path / "t")
    data = (tmp_path / "t").read_bytes()
    rng = random.Random(12)
    junk: list[Any] = [None, -1, 2**70, 1.5, "x", [], {}, [[]], True, {"$tuple": [1]}]
    path = tmp_path / "bad"
    refused = 0
    for _ in range(300):

        def change(header: dict[str, Any]) -> None:
            place: Any = header
            while True:
                keys = list(place) if isinstance(place, dict) else range(len(place))
                key = rng.choice(list(keys))
                if isinstance(place[key], (dict, list)) and place[key] and rng.random() < 0.8:
                    place = place[key]
                    continue
                place[key] = rng.choice(junk)
                return

        path.write_bytes(rewritten(data, change))
        try:
            table = fastprof.load(path)
            fastprof.EventList.from_table(table).key_averages()
        except errors.FormatError:
            refused += 1
    assert refused > 50


@pytest.mark.parametrize("name", ["kernels:other", "other:row", "column:other", "codes:other"])
def test_unknown_blocks_are_refused(name: str, tmp_path: Path) -> None:
    fastprof.save(every_column_table(), tmp_path / "t")

    def rename(header: dict[str, Any]) -> None:
        kind = name.partition(":")[0].replace("other", "kernels")
        block = next(b for b in header["blocks"] if b["name"].startswith(kind))
        block["name"] = name

    (tmp_path / "bad").write_bytes(rewritten((tmp_path / "t").read_bytes(), rename))
    with pytest.raises(errors.FormatError, match=f"block '{name}' of dtype"):
        fastprof.load(tmp_path / "bad")


def test_values_of_every_type_are_encoded_and_decoded() -> None:
    import enum
    import math

    from fastprof.formats.native_file import decode_value, encode_value
    from fastprof.model.event_metadata import parse_metadata

    class Number(enum.IntEnum):
        FIVE = 5

    class Text(str):
        __slots__ = ()

    metadata = parse_metadata({"stream": 3})
    for value, encoded in (
        (None, None), (True, True), (7, 7), ("a", "a"), (1.5, 1.5),
        ([1, [2]], [1, [2]]), ((1, (2,)), {"$tuple": [1, {"$tuple": [2]}]}),
        (math.inf, {"$float": "inf"}), (-math.inf, {"$float": "-inf"}),
        (1 - 2j, {"$complex": [1.0, -2.0]}), (complex(math.inf, 0), {"$complex": [{"$float": "inf"}, 0.0]}),
        (b"ab", {"$bytes": "YWI="}), ({"a": (1,)}, {"a": {"$tuple": [1]}}),
        ({1: "x"}, {"$dict": [[1, "x"]]}), ({"$a": 2}, {"$dict": [["$a", 2]]}),
        (metadata, {"$metadata": {"stream": 3}}),
    ):  # fmt: skip
        assert encode_value(value) == encoded and decode_value(encoded) == value
        assert type(decode_value(encoded)) is type(value)
    assert decode_value(encode_value(math.nan)) != decode_value(encode_value(math.nan))  # NaN
    five, text = encode_value(Number.FIVE), encode_value(Text("t"))
    assert (five, type(five), text, type(text)) == (5, int, "t", str)
    assert encode_value(np.int32(4)) == 4 and encode_value(np.float64(2.5)) == 2.5
    assert encode_value(bytearray(b"ab")) == {"$bytes": "YWI="}
    for wrong in (object(), {1, 2}, np.zeros(2)):
        with pytest.raises(errors.ValueError, match="cannot save a value of type"):
            encode_value(wrong)
    with pytest.raises(errors.ValueError, match="4,000 digits"):
        encode_value(10**5000)
    deep: list[object] = []
    for _ in range(200):
        deep = [deep]
    with pytest.raises(errors.ValueError, match="nested more than"):
        encode_value(deep)
