# SPDX-License-Identifier: Apache-2.0
"""The fast paths of load() read what its plain ones read, and report the same place in a damaged file."""

from __future__ import annotations

import json
import random
import re
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fastprof
from fastprof import EventTable, errors, record_function
from fastprof.importers import json_stream, perfetto_packets
from fastprof.importers.json_stream import JsonStream

Load = Callable[[Path], EventTable]


@pytest.fixture
def plainly(monkeypatch: pytest.MonkeyPatch) -> Load:
    """Call load() without its fast paths: it decodes one value or packet at a time."""

    def load(path: Path) -> EventTable:
        with monkeypatch.context() as patch:
            patch.setattr(JsonStream, "events", lambda self: [])
            patch.setattr(perfetto_packets, "_MOST_KNOWN", 0)
            return fastprof.load(path)

    return load


def assert_equal(a: EventTable, b: EventTable) -> None:
    assert a.column_names == b.column_names
    for name, column in a.to_dict().items():
        np.testing.assert_array_equal(column, b.column(name), name)
    for name, coded in a.coded.items():
        other = b.coded[name]  # equal args may have several codes
        assert [repr(coded[i]) for i in range(len(a))] == [repr(other[i]) for i in range(len(b))], (
            name
        )
    assert list(a.sites) == list(b.sites) and list(a.tracks) == list(b.tracks)
    np.testing.assert_array_equal(a.payload_words, b.payload_words)
    assert (a.t0_ns, a.t1_ns, a.pid) == (b.t0_ns, b.t1_ns, b.pid)
    assert a.dropped == b.dropped and repr(a.metadata) == repr(b.metadata)


@pytest.mark.parametrize("name", ["t.json", "t.json.gz", "t.pftrace"])
@pytest.mark.parametrize("piece", [1 << 20, 4000])
def test_a_profile_of_many_kinds(
    tmp_path: Path, plainly: Load, monkeypatch: pytest.MonkeyPatch, name: str, piece: int
) -> None:
    monkeypatch.setattr(json_stream, "_PIECE_BYTES", piece)

    def work(seed: int) -> None:
        rng = random.Random(seed)
        for i in range(300):
            with record_function(rng.choice(["a", "b", '"ph"', "}, {"])):
                if rng.random() < 0.3:
                    with record_function("args", ph=i, text='},{"ph":"X"'):
                        fastprof.mark("m")
                if rng.random() < 0.1:
                    fastprof.counter("c", i)
                    fastprof.report_memory_usage(i, 64, 64, 64)

    with fastprof.profile(profile_memory=True) as p:
        open_range = record_function("open at the end")
        open_range.__enter__()
        threads = [threading.Thread(target=work, args=(i,)) for i in range(2)]
        for thread in threads:
            thread.start()
        work(7)
        for thread in threads:
            thread.join()
    open_range.__exit__(None, None, None)
    path = tmp_path / name
    (p.export_perfetto_trace if "pf" in name else p.export_chrome_trace)(path)
    quick = fastprof.load(path)
    assert_equal(quick, plainly(path))
    assert len(quick) == len(p.event_table) and quick.unfinished == 1


def random_event(rng: random.Random) -> dict[str, Any]:
    event: dict[str, Any] = {
        "ph": rng.choice("XXXXXXiC"),
        "cat": rng.choice(["cpu_op", "user_annotation", "kernel", 5]),
        "name": rng.choice(["a", "b", "c", ["d"], 7]),
        "pid": rng.choice([1, 1, 1, "Spans", 1.0, True]),
        "tid": rng.choice([1, 2, "3", {"x": 1}]),
        "ts": rng.choice([1, 2.5, 1e9 + 0.001, 1e12 + 0.123, -3.25, 9007199254740.993]),
        "dur": rng.choice([0, 1.5, 0.001, 1234.567, -1.0, 7]),
        "args": rng.choice([{}, {}, {}, {"x": 1}, {"External id": 3}, None, []]),
    }
    for key in rng.sample(["cat", "name", "pid", "tid", "dur", "args"], rng.randrange(2)):
        del event[key]
    return event


@pytest.mark.parametrize("seed", range(8))
def test_random_events(tmp_path: Path, plainly: Load, seed: int) -> None:
    rng = random.Random(seed)
    path = tmp_path / "t.json"
    events = [random_event(rng) for _ in range(400)]
    trace: Any = events if seed % 2 else {"displayTimeUnit": "ms", "traceEvents": events, "last": 1}
    path.write_text(json.dumps(trace, indent=rng.choice([None, 1])))
    assert_equal(fastprof.load(path), plainly(path))


@pytest.mark.parametrize(
    "bad", ['{"ph": "X", "ts": "a"}', "5", '{"ph": "X", "ts": 1e300}', '{"ph": }', '{"ph": "X"']
)
@pytest.mark.parametrize("before", [0, 1, 700])
def test_errors_name_the_same_place(tmp_path: Path, plainly: Load, bad: str, before: int) -> None:
    good = '{"ph": "X", "name": "x", "cat": "c", "pid": 1, "tid": 1, "ts": 1.5, "dur": 2.0, "args": {}}'
    path = tmp_path / "t.json"
    path.write_text("[" + ",\n".join([good] * before + [bad] + [good] * 3) + "]")
    with pytest.raises(errors.FormatError) as quick:
        fastprof.load(path)
    with pytest.raises(errors.FormatError) as plain:
        plainly(path)
    assert str(quick.value) == str(plain.value)
    assert re.search(r"offset \d+", str(quick.value))
