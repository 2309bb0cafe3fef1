# SPDX-License-Identifier: Apache-2.0
"""Sampled profiles of other tools: hand-written files with the rows that they must give, and damaged ones."""

from __future__ import annotations

import contextlib
import cProfile
import gzip
import json
import os
import random
import struct
import sys
from pathlib import Path
from typing import Any

import msgpack
import pytest
from perfetto_encoder import field
from processes import python

import fastprof
from fastprof import record_function

Row = tuple[str, int, int, str]  # name, begin and end in ns from the first row, thread

# main calls f (twice, with idle time between) and f calls g.
ROWS: list[Row] = [
    ("main (m.js:1)", 0, 5000, "t"),
    ("f (m.js:11)", 1000, 4000, "t"),
    ("g", 2000, 3000, "t"),
    ("main (m.js:1)", 7000, 9000, "t"),
    ("f (m.js:11)", 7000, 9000, "t"),
]

CPUPROFILE = {
    "nodes": [
        {"id": 1, "callFrame": {"functionName": "(root)", "lineNumber": -1}, "children": [2, 5]},
        {"id": 2, "callFrame": {"functionName": "main", "url": "file:///a/m.js", "lineNumber": 0}, "children": [3]},
        {"id": 3, "callFrame": {"functionName": "f", "url": "/a/m.js", "lineNumber": 10}, "children": [4]},
        {"id": 4, "callFrame": {"functionName": "g"}},
        {"id": 5, "callFrame": {"functionName": "(idle)"}},
    ],
    "startTime": 1_000_000, "endTime": 1_000_009,
    "samples": [2, 3, 4, 3, 2, 5, 3], "timeDeltas": [0, 1, 1, 1, 1, 1, 2],
}  # fmt: skip

_FRAMES = [
    {"name": "main", "file": "/a/m.js", "line": 1},
    {"name": "f", "file": "/a/m.js", "line": 11},
    {"name": "g"},
]
_SCHEMA = "https://www.speedscope.app/file-format-schema.json"
SAMPLED = {
    "$schema": _SCHEMA,
    "shared": {"frames": _FRAMES},
    "profiles": [
        {"type": "sampled", "name": "t", "unit": "microseconds", "startValue": 0, "endValue": 9,
         "samples": [[0], [0, 1], [0, 1, 2], [0, 1], [0], [], [0, 1]], "weights": [1, 1, 1, 1, 1, 2, 2]}
    ],
}  # fmt: skip
_OPEN_CLOSE = "O0@0 O1@1 O2@2 C2@3 C1@4 C0@5 O0@7 O1@7 C1@9 C0@9"
EVENTED = {
    "$schema": _SCHEMA,
    "shared": {"frames": _FRAMES},
    "profiles": [
        {"type": "evented", "name": "t", "unit": "microseconds", "startValue": 0, "endValue": 9,
         "events": [{"type": e[0], "frame": int(e[1]), "at": int(e[3])} for e in _OPEN_CLOSE.split()]}
    ],
}  # fmt: skip

# Stacks: 0 main, 1 main;f, 2 main;f;g.
_STACKS = [0, 1, 2, 1, 0, None, 1]
_TIMES_MS = [0, 0.001, 0.002, 0.003, 0.004, 0.005, 0.007]
GECKO = {
    "meta": {"version": 24, "stackwalk": 1, "interval": 0.002},
    "threads": [{
        "name": "t", "pid": "7", "tid": 8,
        "samples": {"schema": {"stack": 0, "time": 1}, "data": [list(s) for s in zip(_STACKS, _TIMES_MS, strict=True)]},
        "stackTable": {"schema": {"prefix": 0, "frame": 1}, "data": [[None, 0], [0, 1], [1, 2]]},
        "frameTable": {"schema": {"location": 0}, "data": [[0], [1], [2]]},
        "stringTable": ["main (/a/m.js:1:5)", "f (/a/m.js:11)", "g"],
    }],
}  # fmt: skip
PROCESSED = {
    "meta": {"preprocessedProfileVersion": 50, "interval": 0.002},
    "threads": [{
        "name": "t", "pid": "7", "tid": 8,
        "samples": {"stack": _STACKS, "time": _TIMES_MS, "length": 7},
        "stackTable": {"prefix": [None, 0, 1], "frame": [0, 1, 2]},
        "frameTable": {"func": [0, 1, 2], "line": [1, 11, None]},
        "funcTable": {"name": [0, 1, 2], "fileName": [3, 3, None]},
        "stringArray": ["main", "f", "g", "/a/m.js"],
    }],
}  # fmt: skip

SELF_PROFILE = {
    "frames": [{"name": "main", "resourceId": 0, "line": 1}, {"name": "f", "resourceId": 0, "line": 11}, {"name": "g"}],
    "resources": ["/a/m.js"],
    "samples": [
        {"timestamp": 5 + at, **({} if stack is None else {"stackId": stack})}
        for at, stack in zip([*_TIMES_MS, 0.009], [*_STACKS, None], strict=True)
    ],
    "stacks": [{"frameId": 0}, {"frameId": 1, "parentId": 0}, {"frameId": 2, "parentId": 1}],
}  # fmt: skip

# Without times: callees one after the other.
SUMS: list[Row] = [
    ("main (m.py:1)", 0, 10_000, "t"),
    ("f (m.py:11)", 0, 6_000, "t"),
    ("g", 0, 4_000, "t"),
    ("h", 6_000, 7_000, "t"),
]


def pprof() -> bytes:
    texts = ["", "cpu", "nanoseconds", "main", "f", "g", "h", "/a/m.py", "samples", "count", "thread", "t"]  # fmt: skip
    data = b"".join(
        field(1, field(1, texts.index(kind)) + field(2, texts.index(unit)))
        for kind, unit in (("samples", "count"), ("cpu", "nanoseconds"))
    )
    label = field(3, field(1, texts.index("thread")) + field(2, texts.index("t")))
    for stack, weight in (([1], 3000), ([2, 1], 2000), ([3, 2, 1], 4000), ([4, 1], 1000)):
        places = b"".join(field(1, each) for each in stack)
        data += field(2, places + field(2, 1) + field(2, weight) + label)
    for number, (name, line) in enumerate((("main", 1), ("f", 11), ("g", 0), ("h", 0)), 1):
        file = texts.index("/a/m.py") if line else 0
        data += field(4, field(1, number) + field(4, field(1, number) + field(2, line)))
        data += field(5, field(1, number) + field(2, texts.index(name)) + field(4, file))
    return data + b"".join(field(6, text.encode()) for text in texts)


def proton(name: str, own_ns: int, *children: Any) -> dict[str, Any]:
    metrics = {"count": 1, "time (ns)": own_ns} if own_ns else {}
    return {
        "children": list(children),
        "frame": {"name": name, "type": "function"},
        "metrics": metrics,
    }


def packed(node: dict[str, Any]) -> dict[str, Any]:
    """The members in the order in which Proton packs them."""
    children = [packed(child) for child in node["children"]]
    return {"frame": node["frame"], "metrics": node["metrics"], "children": children}


_F = proton("/a/m.py:11@f", 2000, proton("g", 4000))
HATCHET = json.dumps(
    [proton("ROOT", 0, proton("/a/m.py:1@main", 3000, _F, proton("h", 1000))), {"CUDA": {"0": {"arch": "90"}}}]
)  # fmt: skip
COLLAPSED = "main (/a/m.py:1) 3000\nmain (/a/m.py:1);f (/a/m.py:11) 2000\n\
main (/a/m.py:1);f (/a/m.py:11);g 4000\nmain (/a/m.py:1);h 1000"
AUSTIN = (
    "# austin: 3.6.0\n# mode: wall\n\nP7;T0:8;/a/m.py:main:1 3\nP7;T0:8;/a/m.py:main:1;/a/m.py:f:11 2\n\
P7;T0:8;/a/m.py:main:1;/a/m.py:f:11;g 4\nP7;T0:8;/a/m.py:main:1;h 1\n"
)
# Version 3: texts 2 to 5, frames 0 to 2, then a stack and its time in us for each sample. Text 1 is in no file.
_MOJO_NAMES = (
    b"\x0b\x02/a/m.js\0" b"\x0b\x03main\0" b"\x0b\x04f\0" b"\x0b\x05g\0"
    b"\x03\x00\x02\x03\x01\0\0\0" b"\x03\x01\x02\x04\x0b\0\0\0" b"\x03\x02\x01\x05\x00\0\0\0"
)  # fmt: skip
_MOJO_SAMPLES = [((0,), 1), ((0, 1), 1), ((0, 1, 2), 1), ((0, 1), 1), ((0,), 1), ((), 2), ((0, 1), 2)]  # fmt: skip
MOJO = b"MOJ\x03\x01mode\0wall\0"
for _number, (_stack, _us) in enumerate(_MOJO_SAMPLES):
    MOJO += b"\x02\x87\x01\x000:2f\0" + (b"" if _number else _MOJO_NAMES)  # process 71, thread 0x2f
    MOJO += b"".join(bytes([5, frame]) for frame in _stack) + bytes([9, _us])


# Innermost frame first. Python's frames have no line; an idle thread has no sample.
_PERF_FRAMES = [
    "py::main:/a/m.js+0xb (/tmp/perf-71.map)",
    "f(int)+0x1c (/a/lib m.so (deleted))",
    "g ([unknown])",
]
_PERF_STACKS = [(0, 1), (1, 2), (2, 3), (3, 2), (4, 1), (7, 2)]
PERF = "".join(
    f"t   71/72    [001] 9.00000{at}: {2000 if at == 7 else 1000:>10} cpu-clock:u: \n"
    + "".join(f"\t    7f45ea84664{i} {_PERF_FRAMES[i]}\n" for i in reversed(range(depth)))
    + "\n"
    for at, depth in _PERF_STACKS
)
_PERF_NAMES = {"main (m.js:1)": "main (m.js)", "f (m.js:11)": "f(int) (lib m.so (deleted))"}
PERF_ROWS = [(_PERF_NAMES.get(name, name), *rest) for name, *rest in ROWS]

# CPython's InternalDocs/profiling_binary_format.md, by hand: no Python that writes these files is needed.
_TACHYON_RECORDS = [
    b"\1\5\3\1\0", b"\2\1\3\1\1\1", b"\2\1\3\2\1\2",  # main after 5 us; f and g are called, each after 1
    b"\3\1\3\1\0", b"\3\1\3\1\0", b"\3\1\3\1\0",  # each returns
    b"\0\1\1\0", b"\1\1\3\2\1\0", b"\0\1\1\3",  # idle once more; f in main, and once more
]  # fmt: skip


_TACHYON_TABLES = (
    b"\7/a/m.js\4main\1f\1~\1g",
    b"\0\1\2\0\2\4\xff\0\2\x16\2\1\0\1\3\4\0\0\1\0\xff",
)


def tachyon(
    order: str = "<", counts: str = "II", zstd: bool = False,
    data: bytes = b"", tables: tuple[bytes, bytes] = _TACHYON_TABLES,
) -> bytes:  # fmt: skip
    thread = struct.pack(order + "QI", 1 << 40, 0)
    data = data or b"".join(thread + each for each in _TACHYON_RECORDS)
    if zstd:  # a frame of one block that is stored
        size = len(data)
        data = (
            b"\x28\xb5\x2f\xfd\x20" + bytes([size]) + (size << 3 | 1).to_bytes(3, "little") + data
        )
    names, frames = tables
    texts_at = 64 + len(data)
    frames_at = texts_at + len(names)
    facts = (0x54414348, 1, 3, 15, 0, 1_000_000, 1, 9, 1, texts_at, frames_at, zstd)
    head = struct.pack(order + "IIBBBxQQ" + counts + "QQI", *facts).ljust(64, b"\0")
    total = frames_at + len(frames) + 32
    return head + data + names + frames + struct.pack(order + "IIQ16x", 5, 3, total)


def rows(path: Path) -> list[Row]:
    table = fastprof.load(path)
    first = int(table.start_ns.min())
    names = [track.name or "t" for track in table.tracks]
    return [
        (table.name(i), int(table.start_ns[i]) - first, int(table.end_ns[i]) - first, names[table.column("track")[i]])
        for i in range(len(table))
    ]  # fmt: skip


def write(path: Path, content: Any) -> Path:
    if isinstance(content, dict):
        content = json.dumps(content)
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


FILES = {
    "cpuprofile": (CPUPROFILE, ROWS), "sampled": (SAMPLED, ROWS), "evented": (EVENTED, ROWS), "gecko": (GECKO, ROWS),
    "processed": (PROCESSED, ROWS), "pprof": (pprof(), SUMS), "pprof.gz": (gzip.compress(pprof()), SUMS),
    "self-profile": (SELF_PROFILE, ROWS), "hatchet": (HATCHET, SUMS), "collapsed": (COLLAPSED, SUMS),
    "packed hatchet": (msgpack.packb([packed(json.loads(HATCHET)[0]), {}]), SUMS),
    "austin": (AUSTIN, SUMS), "mojo": (MOJO, ROWS), "perf": (PERF, PERF_ROWS),
    "tachyon": (tachyon(), ROWS), "tachyon.be": (tachyon(">", "QI"), ROWS), "tachyon.zst": (tachyon(zstd=True), ROWS),
}  # fmt: skip


@pytest.mark.parametrize("name", FILES)
def test_rows_of_hand_written_profiles(name: str, tmp_path: Path) -> None:
    content, expected = FILES[name]
    path = write(tmp_path / "profile", content)
    found = rows(path)
    if name in (
        "cpuprofile",
        "self-profile",
        "hatchet",
        "packed hatchet",
    ):  # the files have no names of threads
        found = [(text, begin, end, "t") for text, begin, end, _ in found]
    assert found == expected


@pytest.mark.parametrize(
    ("text", "stack", "tid"),
    [
        ("<module> (/a/m.py:7);f (/a/m.py:3) 91", ["<module> (m.py:7)", "f (m.py:3)"], 0),  # py-spy
        (" 3\n<module> (/a/m.py:7) 91", ["<module> (m.py:7)"], 0),  # its samples without a frame
        ("[unknown];main 2", ["[unknown]", "main"], 0),  # perf
        ("<frozen site>:main:5;m.py:f:3 4", ["main (<frozen site>:5)", "f (m.py:3)"], 0),
        ("tid:71;m.py:<module>:9;<GC> 4", ["<module> (m.py:9)", "<GC>"], 71),  # profiling.sampling
    ],
)
def test_first_lines_of_collapsed_stacks(
    text: str, stack: list[str], tid: int, tmp_path: Path
) -> None:
    table = fastprof.load(write(tmp_path / "stacks.txt", text))
    assert [table.name(i) for i in range(len(table))] == stack
    assert [track.tid for track in table.tracks] == [tid]


def test_process_of_perf_script(tmp_path: Path) -> None:
    """The process with most samples, if the text has processes; the name is its main thread's."""
    line = "{} [001] 5.0000{}0: 1 cycles: 1963469 f (/a/prog)\n"
    whose = ["a 7/7", "b 8/8", "c 8/9"]
    text = "".join(line.format(each, at) for at, each in enumerate(whose, 10))
    table = fastprof.load(write(tmp_path / "perf.txt", text))
    assert (table.pid, table.process_name) == (8, "b")
    found = fastprof.load(write(tmp_path / "tids.txt", line.format("a 7", 10)))
    assert (found.pid, found.process_name) == (0, "")


def test_lines_of_perf_script(tmp_path: Path) -> None:
    """Headers, one-line samples of all CPUs, records, other events, and an end that cuts a sample."""
    text = """# ========
# captured on    : Sat Nov 28 12:40:48 2026
#
         swapper     0 [000]     5.000010:          1 cpu_core/cycles/:  ffffffff81710c2f idle+0x1 ([kernel.kallsyms])
         swapper     0 [001]     5.000010:          1 cpu_atom/cycles/u:  ffffffff81710c2f idle+0x1 ([kernel.kallsyms])
      my program  8123 [001]     5.000020:          1 cycles:pppH:            1963469 f
      my program  8123 [001]     5.000030: PERF_RECORD_MMAP2 8123/8123: [0x7f(0x1) @ 0]: r-xp /a/lib.so
      my program  8123 [001]     5.000040: sched:sched_switch: prev_comm=a prev_pid=1
      my program  8123 [001]     5.000050:          1 cycles:
        \t            1963469 f (/a/prog)
"""
    table = fastprof.load(write(tmp_path / "perf.txt", text))
    assert [(t.name, t.tid) for t in table.tracks] == [
        ("swapper", 0),
        ("swapper", 0),
        ("my program", 8123),
    ]
    assert [table.name(i) for i in range(len(table))] == ["idle (kernel)", "idle (kernel)", "f"]
    assert table.metadata["stack_samples"] == 3
    assert table.metadata["skipped_events"] == {
        "line that is neither a sample nor a frame": 1,
        "sample of sched:sched_switch": 1,
        "sample that the end of the file cuts": 1,
    }


@pytest.mark.parametrize("suffix", ["speedscope.json", "gecko.json", "folded", "pprof", "pb.gz"])
def test_own_files_are_read_again(suffix: str, tmp_path: Path) -> None:
    with fastprof.profile() as profile:
        for _ in range(3):
            with record_function("outer"):
                with record_function("first"):
                    pass
                with record_function("second"):
                    pass
    profile.export(tmp_path / f"own.{suffix}")
    own = {a.key: a.self_cpu_time_total for a in profile.key_averages()}
    again = fastprof.load(tmp_path / f"own.{suffix}").key_averages()
    found = {a.key: pytest.approx(a.self_cpu_time_total, abs=0.01) for a in again}
    found.pop("MainThread", None)  # collapsed stacks begin with the thread
    assert found == own


def test_gecko_files_have_the_rows_that_were_written(tmp_path: Path) -> None:
    """Random stacks with empty and adjacent equal rows: all rows again, in tables with the columns of the format."""
    sites = [
        fastprof.Site("step", "user_annotation", "/a/train.py", line=9),
        fastprof.Site("aten::mm", "cpu_op"),
        fastprof.Site("f (m.py:11)", "sample", "/a/m.py", "f", 11),
        fastprof.Site("deflate (libz.so.1)", "sample", "/usr/lib/libz.so.1", "deflate"),
        fastprof.Site("[unknown]", "sample", function="[unknown]"),
    ]
    chance = random.Random(48)
    tracks = [fastprof.Track(1, 7, 7, "main"), fastprof.Track(5, 7, 9, "worker")]

    def facts(table: Any) -> list[Any]:
        origin = int(table.start_ns.min())
        return sorted(
            (tracks_of[i], *table.sites[site][:3], table.sites[site].line, int(begin) - origin, int(end) - origin)
            for tracks_of in [[table.tracks[t].name for t in table.column("track")]]
            for i, (site, begin, end) in enumerate(zip(table.column("site"), table.start_ns, table.end_ns, strict=True))
        )  # fmt: skip

    for round_number in range(50):
        rows: list[tuple[int, int, int, int]] = []

        def nest(begin: int, end: int, track: int, rows: list[Any], depth: int = 0) -> None:
            while begin < end and depth < 6:
                stop = chance.choice([begin, end, chance.randint(begin, end)])
                rows.append((begin, stop, chance.randrange(len(sites)), track))
                nest(begin, stop, track, rows, depth + 1)
                begin = stop + chance.choice([0, 1, 1])

        nest(1_700_000_000_000_000_000, 1_700_000_000_000_000_000 + 40**5, 0, rows)
        nest(1_700_000_000_000_000_003, 1_700_000_000_000_000_000 + 30, 1, rows)
        columns = dict(
            zip(("start_ns", "end_ns", "site", "track"), zip(*rows, strict=True), strict=True)
        )
        table = fastprof.EventTable(columns, sites=sites, tracks=tracks)
        path = tmp_path / f"{round_number}.gecko.json"
        table.export(path)
        assert facts(fastprof.load(path)) == facts(table)
        document = json.loads(path.read_text())
        for thread in document["threads"]:
            for name, each in thread.items():
                if isinstance(each, dict):
                    assert {len(c) for c in each.values() if isinstance(c, list)} == {
                        each["length"]
                    }, name
            texts = [thread["stringArray"][name] for name in thread["markers"]["name"]]
            assert set(texts) <= {"step", "aten::mm"}
            assert all(w >= 0 for w in thread["samples"]["weight"])


@pytest.mark.parametrize("command", [["report"], ["report", "--flame"], ["explain"], ["doctor"]])
def test_commands_take_them(command: list[str], tmp_path: Path) -> None:
    path = write(tmp_path / "node.cpuprofile", CPUPROFILE)
    done = python("-m", "fastprof", *command, path, check=True)
    assert ("7 samples: times are estimates" in done.stdout) == (command[0] == "report")


@pytest.mark.parametrize("name", FILES)
def test_damaged_profiles_are_refused_or_read(name: str, tmp_path: Path) -> None:
    """Bytes cut, repeated or changed, in FASTPROF_FUZZ_INPUTS files: never another error than FormatError."""
    chance = random.Random(name)
    content = write(tmp_path / "whole", FILES[name][0]).read_bytes()
    refused = 0
    for _ in range(int(os.environ.get("FASTPROF_FUZZ_INPUTS", "300"))):
        at, size = chance.randrange(len(content)), chance.randrange(1, 20)
        middle = chance.choice(
            [b"", content[at : at + size] * 2, chance.randbytes(size), b"-1", b"null"]
        )
        path = write(tmp_path / "damaged", content[:at] + middle + content[at + size :])
        try:
            fastprof.load(path).key_averages()
        except fastprof.errors.FormatError:
            refused += 1
    assert refused


def test_damaged_parts_of_sampling_files(tmp_path: Path) -> None:
    """Records, texts and frames changed, with sizes and places that agree: the rows, or FormatError."""
    chance = random.Random(315)
    whole = tachyon()
    texts_at = len(whole) - 32 - sum(map(len, _TACHYON_TABLES))
    parts = [whole[64:texts_at], *_TACHYON_TABLES]
    read = 0
    for _ in range(2000):
        changed = [bytearray(part) for part in parts]
        part = chance.choice(changed)
        for _ in range(chance.randrange(1, 4)):
            at = chance.randrange(len(part))
            part[at : at + chance.randrange(3)] = chance.choice(
                [chance.randbytes(1), b"\xff" * chance.randrange(12), bytes(part[:at]), b""]
            )
            part += b"\0" * (not part)
        data, *tables = map(bytes, changed)
        path = write(tmp_path / "damaged", tachyon(data=data, tables=(tables[0], tables[1])))
        with contextlib.suppress(fastprof.errors.FormatError):
            read += len(fastprof.load(path)) > 0
    assert read


def test_compressed_samples_without_a_decompressor(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in ("zstandard", "compression", "compression.zstd"):
        monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(fastprof.errors.FormatError, match="pip install zstandard"):
        fastprof.load(write(tmp_path / "profile", tachyon(zstd=True)))


def test_packed_trees_without_an_unpacker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "msgpack", None)
    with pytest.raises(fastprof.errors.FormatError, match="pip install msgpack"):
        fastprof.load(write(tmp_path / "profile", FILES["packed hatchet"][0]))


def test_what_cannot_be_read_is_named(tmp_path: Path) -> None:
    statistics = cProfile.Profile()
    statistics.runcall(len, "")
    statistics.dump_stats(tmp_path / "cprofile")
    with fastprof.profile() as profile:
        pass
    profile.export_html(tmp_path / "report.html")
    with fastprof.profile(python_calls=True, profile_memory=True) as own:
        fastprof.report_memory_usage(1, 64)
        os.path.join("a", "b")
    for suffix in ("pstats", "csv", "memory.csv", "memory.json", "memory.html"):
        own.export(tmp_path / f"own.{suffix}")
    write(tmp_path / "archive", b"PK\x03\x04" + bytes(40))
    write(tmp_path / "picture", "<svg xmlns='http://www.w3.org/2000/svg'/>")
    write(tmp_path / "mojo", b"MOJ\x0f\x01mode\x00wall\x00")
    write(tmp_path / "newer", tachyon().replace(b"HCAT\1", b"HCAT\2"))
    write(tmp_path / "cut", tachyon()[:-1])
    write(tmp_path / "chakra", {"schema": "1.1.1-chakra.0.0.4", "pid": 1, "nodes": []})
    write(tmp_path / "train.py", "import torch\n")
    write(tmp_path / "script", "#!/usr/bin/env python3\nimport torch\n")
    expected = {
        "cprofile": "python -m pstats", "report.html": "fastprof's HTML report", "archive": "unpack", "picture": "SVG",
        "mojo": "version 15", "newer": "profiling.sampling replay", "cut": "truncated", "chakra": "graph of the ops",
        "train.py": "fastprof run", "script": "fastprof run", "own.pstats": "python -m pstats",
        "own.csv": "table of events", "own.memory.csv": "memory over time", "own.memory.json": "memory over time",
        "own.memory.html": "open it in a browser",
    }  # fmt: skip
    for name, text in expected.items():
        with pytest.raises(fastprof.errors.FormatError, match=text):
            fastprof.load(tmp_path / name)
