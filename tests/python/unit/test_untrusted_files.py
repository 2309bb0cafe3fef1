# SPDX-License-Identifier: Apache-2.0
"""Reading untrusted files: memory is bounded, only fastprof's own errors are raised, also when the table is used."""

from __future__ import annotations

import contextlib
import copy
import gzip
import io
import json
import random
import resource
import warnings
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from own_files import rewritten
from processes import python
from trace_tables import every_column_table, nested_table

import fastprof
from fastprof import errors
from fastprof.exporters.range_stacks import DEEPER, collapsed_ranges, export_range_stacks
from fastprof.exporters.speedscope import export_speedscope
from fastprof.exporters.trace_writers import write_chrome_trace, write_perfetto_trace
from fastprof.formats.native_file import MAGIC, PREFIX
from fastprof.model.table import EventTable

MB = 1 << 20


@pytest.mark.parametrize(
    ("place", "value"),
    [
        (("sites", "line", 0), -1), (("sites", "line", 0), 2**32), (("sites", "color", 1), -5),
        (("sites", "mask", 0), 2**40), (("sites", "kind", 0), 77), (("sites", "scope", 0), 10),
        (("sites", "device_type", 0), 99),
        (("sites", "device_index", 0), 40000),
        (("sites", "arg_types", 0), {"$tuple": [9]}),
        (("sites", "arg_types", 0), {"$tuple": ["x"]}),
        (("sites", "arg_names", 0), {"$tuple": []}),
        (("sites", "arg_names", 0), {"$tuple": [3]}),
        (("coded", "input_shapes", 0), 7),
        (("coded", "input_shapes", 0), "text"),
        (("coded", "stack", 0), [1, 2]),
        (("coded", "kwinputs", 0), []),
        (("coded", "overload_name", 0), 3),
        (("coded", "metadata_json", 0), {"a": 1}),
        (("coded", "input_dtypes", 0), 1.5),
        (("dropped", "memory"), -3), (("metadata",), [1]), (("tracks", 0, 1), 2**70),
    ],
)  # fmt: skip
def test_fields_out_of_range_are_refused_at_load(
    tmp_path: Path, place: tuple[Any, ...], value: Any
) -> None:
    fastprof.save(every_column_table(), tmp_path / "t")

    def change(header: dict[str, Any]) -> None:
        at: Any = header
        for key in place[:-1]:
            at = at[key]
        at[place[-1]] = value

    bad = tmp_path / "bad"
    bad.write_bytes(rewritten((tmp_path / "t").read_bytes(), change))
    with pytest.raises(errors.FormatError) as caught:
        fastprof.load(bad)
    assert str(bad) in str(caught.value)


def nested_lists(depth: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(depth):
        value = [value]
    return value


def test_values_nested_too_deeply(tmp_path: Path) -> None:
    event = {"ph": "X", "ts": 1.0, "dur": 1.0, "name": "x", "cat": "cpu_op", "pid": 1, "tid": 1}
    event["args"] = {"Input Dims": nested_lists(100)}
    path = tmp_path / "deep.json"
    for depth in (100, 900):
        event["args"] = {"Input Dims": nested_lists(depth)}
        path.write_text(json.dumps({"traceEvents": [event]}))
        with pytest.raises(errors.FormatError, match="nested"):
            fastprof.load(path)
    path.write_text('{"traceEvents":[' + "[" * 100_000)
    with pytest.raises(errors.FormatError):
        fastprof.load(path)


BOMBS = {
    "one value of empty lists": b'{"a":[' + b"[]," * 6_000_000 + b'[]],"traceEvents":[]}',
    "many members": b"{" + b'"a":[[],[],[]],' * 1_500_000 + b'"traceEvents":[]}',
    "many names": b"[" + b",".join(b'{"ph":"i","ts":1,"name":"%x"}' % i for i in range(200_000)) + b"]",
    "many threads": b"[" + b",".join(b'{"ph":"i","ts":1,"tid":%d}' % i for i in range(200_000)) + b"]",
    "a packet of annotations": b"\x0a\x80\x80\x80\x10" + b"\x5a\xfa\xff\xff\x0f" + b"\x00" * 8_000_000,
}  # fmt: skip
LOAD = """
import resource, sys, fastprof
from fastprof import errors
import numpy
fastprof.load  # imported before the limit
import fastprof.importers.chrome_trace, fastprof.importers.perfetto_trace
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
try:
    fastprof.load(sys.argv[1], max_memory_bytes=100 << 20)
except errors.FormatError as error:
    print("FormatError", error)
else:
    print("loaded")
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) // 1024)
"""


@pytest.mark.parametrize("name", BOMBS)
def test_gzip_bombs_take_no_more_than_the_limit(tmp_path: Path, name: str) -> None:
    path = tmp_path / "bomb.gz"
    path.write_bytes(gzip.compress(BOMBS[name], 1))
    result = python("-c", LOAD, path, check=True)
    *lines, more_mb = result.stdout.splitlines()
    assert lines[0].startswith("FormatError"), lines
    assert int(more_mb) < 200


def test_a_tiny_file_that_says_it_is_huge(tmp_path: Path) -> None:
    size = (16 << 30) - 100
    for header_size in (size - 64, 3):
        prefix = PREFIX.pack(MAGIC, 1, zlib.crc32(b""), header_size, size)
        (tmp_path / "t.gz").write_bytes(gzip.compress(prefix))
        with pytest.raises(errors.FormatError):
            fastprof.load(tmp_path / "t.gz")
    fastprof.save(nested_table(30), tmp_path / "t")

    def change(header: dict[str, Any]) -> None:
        header["blocks"][0]["count"] = 1 << 28

    data = bytearray(rewritten((tmp_path / "t").read_bytes(), change))
    data[24:32] = (16 << 30).to_bytes(8, "little")
    (tmp_path / "t.gz").write_bytes(gzip.compress(bytes(data)))
    with pytest.raises(errors.FormatError):
        fastprof.load(tmp_path / "t.gz")


def test_limits_are_arguments_and_do_not_refuse_ordinary_files(tmp_path: Path) -> None:
    table = nested_table(3000)
    fastprof.save(table, tmp_path / "t.fastprof")
    write_chrome_trace(table, tmp_path / "t.json")
    write_perfetto_trace(table, tmp_path / "t.pftrace")
    for name in ("t.fastprof", "t.json", "t.pftrace"):
        assert len(fastprof.load(tmp_path / name, max_memory_bytes=8 * MB)) == len(table)
        with pytest.raises(errors.FormatError, match="max_memory_bytes"):
            fastprof.load(tmp_path / name, max_memory_bytes=10_000)
        with pytest.raises(errors.ValueError, match="max_memory_bytes"):
            fastprof.load(tmp_path / name, max_memory_bytes=0)


def test_files_that_are_open_and_pipes(tmp_path: Path) -> None:
    table = nested_table(30)
    fastprof.save(table, tmp_path / "t")
    data = (tmp_path / "t").read_bytes()
    for content in (data, gzip.compress(data)):
        assert len(fastprof.load(io.BytesIO(content))) == 30

        class Pipe(io.BytesIO):
            def seekable(self) -> bool:
                return False

        assert len(fastprof.load(Pipe(content), mmap=True)) == 30
        with pytest.raises(errors.FormatError, match="max_bytes"):
            fastprof.load(Pipe(content), max_bytes=20)
    for whole in (Pipe(data), io.BytesIO(data)):
        assert len(fastprof.load(whole, max_bytes=len(data))) == 30
    with pytest.raises(errors.FormatError, match=f"the limit of {len(data) - 1} bytes"):
        fastprof.load(Pipe(data), max_bytes=len(data) - 1)
    with open(tmp_path / "t", "rb") as file:
        assert len(fastprof.load(file)) == 30
        assert not file.closed
    for wrong in (io.StringIO("{}"), None):
        with pytest.raises(
            errors.ValueError, match=r'a path or a binary file, such as open\(path, "rb"\)'
        ):
            fastprof.load(wrong)  # type: ignore[arg-type]


def use(table: EventTable, folder: Path) -> None:
    """Do everything that can be done with a loaded table. Only fastprof's own errors may be raised."""
    out = folder / "out"

    def attempt(action: Callable[[], object]) -> None:
        with contextlib.suppress(errors.Error):
            action()

    events = table.events()
    attempt(lambda: events.key_averages().table())
    attempt(lambda: events.key_averages(True, 2, True).table(sort_by="count", max_width=80))
    attempt(lambda: events.table(row_limit=20, flops_per_s=True))
    attempt(lambda: events.total_average())
    attempt(lambda: [repr(event) for event in events[:5]])
    attempt(lambda: [event.kernels for event in events[:5]])
    attempt(lambda: events.export_csv(out))
    attempt(lambda: events.export_json(out))
    attempt(lambda: events.export_chrome_trace(out))
    attempt(lambda: events.export_stacks(out))
    attempt(lambda: write_chrome_trace(table, out))
    attempt(lambda: write_perfetto_trace(table, out))
    attempt(lambda: fastprof.save(table, out))
    attempt(lambda: export_range_stacks(table, out, threads=True))
    attempt(lambda: export_speedscope(table, out))
    attempt(lambda: fastprof.exporters.memory_timeline.export_memory_timeline(table, f"{out}.json"))


JUNK: list[Any] = [None, -1, 2**70, 1.5, "x", [], {}, [[]], True, {"$tuple": [1]}, -(2**63), "\ud800"]  # fmt: skip


def mutate(place: Any, rng: random.Random) -> None:
    while True:
        keys = list(place) if isinstance(place, dict) else list(range(len(place)))
        if not keys:
            return
        key = rng.choice(keys)
        if isinstance(place[key], (dict, list)) and place[key] and rng.random() < 0.85:
            place = place[key]
            continue
        place[key] = copy.deepcopy(rng.choice(JUNK))
        return


@pytest.mark.parametrize("kind", ["native", "chrome", "perfetto"])
def test_mutated_files_fail_at_load_or_can_be_used(tmp_path: Path, kind: str) -> None:
    import fastprof.exporters.memory_timeline

    rng = random.Random(23)
    table = nested_table(60) if kind == "perfetto" else every_column_table()
    path = tmp_path / "t"
    if kind == "native":
        fastprof.save(table, path)
    elif kind == "chrome":
        write_chrome_trace(table, path)
    else:
        write_perfetto_trace(table, path)
    data = path.read_bytes()
    warnings.simplefilter("ignore")
    for number in range(150):
        if number % 25 == 0:  # must be used
            mutated = data
        elif number % 25 == 1:  # must be refused
            mutated = data.rstrip()[:-1]
        elif kind == "native":
            mutated = rewritten(data, lambda header: mutate(header, rng))
        elif kind == "chrome":
            document = json.loads(data)
            for _ in range(rng.randrange(1, 6)):
                mutate(document, rng)
            mutated = json.dumps(document).encode()
        else:
            changed = bytearray(data)
            for _ in range(rng.randrange(1, 5)):
                changed[rng.randrange(len(changed))] = rng.randrange(256)
            mutated = bytes(changed)
        path.write_bytes(mutated)
        try:
            loaded = fastprof.load(path)
        except (errors.FormatError, errors.IoError):
            assert number % 25 != 0
            continue
        assert number % 25 != 1
        try:
            use(loaded, tmp_path)
        except Exception:
            (tmp_path / "culprit").write_bytes(mutated)
            raise


def deep_table(depth: int, names: int = 10) -> EventTable:
    return EventTable(
        {
            "start_ns": list(range(depth)),
            "end_ns": [4 * depth - i for i in range(depth)],
            "site": [i % names for i in range(depth)],
        },
        sites=[fastprof.Site(f"function_{i}") for i in range(names)],
    )


def test_collapsed_stacks_of_a_deep_tree_are_folded() -> None:
    table = deep_table(5000)
    with pytest.warns(UserWarning, match="nest up to 5000 deep"):
        lines = list(collapsed_ranges(table, max_chars=1 << 20))
    assert sum(len(label) + 21 for label, _ in lines) <= 1 << 20
    assert any(label.endswith(DEEPER) for label, _ in lines)
    assert max(label.count(";") for label, _ in lines) < 500
    assert sum(value for _, value in lines) == int(table.duration_ns[0])  # no time is lost
    full = list(collapsed_ranges(deep_table(100)))
    assert len(full) == 100 and not any(DEEPER in label for label, _ in full)


def test_deep_trees_in_every_reader(tmp_path: Path) -> None:
    """100,000 nested ranges can be read: no recursion, no quadratic time."""
    limit = resource.getrusage(resource.RUSAGE_SELF).ru_utime
    table = deep_table(100_000)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        export_range_stacks(table, tmp_path / "o", max_chars=1 << 20)
    export_speedscope(table, tmp_path / "o")
    events = fastprof.EventList.from_table(table)
    assert len(events.key_averages()) == 10
    assert "function_0" in events.table(row_limit=5)
    assert len(table[[0, 99_999]]) == 2
    assert resource.getrusage(resource.RUSAGE_SELF).ru_utime - limit < 60


def test_streams_are_named_in_messages() -> None:
    """By their name if they have one; reading goes on where the stream is."""

    class Named(io.BytesIO):
        name = "the name"

    for stream, name in ((io.BytesIO(b"junk"), "a stream"), (Named(b"junk"), "the name")):
        with pytest.raises(errors.FormatError) as caught:
            fastprof.load(stream)
        assert str(caught.value).startswith(f"{name}: offset 0: unrecognised file format")


@pytest.mark.parametrize("suffix", ["json", "json.gz", "pftrace"])
def test_the_error_for_a_truncated_trace_says_what_can_be_read(suffix: str, tmp_path: Path) -> None:
    path = tmp_path / f"t.{suffix}"
    with fastprof.profile() as profile:
        for i in range(200):
            fastprof.mark(f"mark {i}")
    profile.export(path)
    content = path.read_bytes()
    path.write_bytes(content[: len(content) * 4 // 5 - 1])
    count = len(fastprof.load(path, salvage=True))
    assert 0 < count < 200
    with pytest.raises(fastprof.errors.FormatError, match=rf"Read the {count} events .*--salvage"):
        fastprof.load(path)
