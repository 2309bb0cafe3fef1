# SPDX-License-Identifier: Apache-2.0
"""profile(): traces and metadata, pauses, which leave events out of them, and perf counters."""

from __future__ import annotations

import gzip
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from strict_json import strict

import fastprof
from fastprof import errors, record_function
from fastprof.exporters import trace_writers


def names(profile: fastprof.profile) -> list[str]:
    return [event.trace_name for event in profile.events()]


def test_chrome_trace_and_metadata(tmp_path: Path) -> None:
    p = fastprof.profile(custom_trace_id_callback=lambda: "my id", with_stack=True)
    p.preset_metadata_json("preset", "[1, 2]")
    with p, record_function('quote " and \ud800', step=1, nan=float("nan"), inf=float("inf")):
        p.add_metadata("text", 'a"b\\c\n\ud800')
    p.add_metadata_json("later", '{"x": null}')
    with pytest.raises(errors.ValueError, match="'bad' is not valid JSON"):
        p.add_metadata_json("bad", "{x")
    with pytest.raises(errors.ValueError, match="NaN is not JSON"):
        p.add_metadata_json("bad", "NaN")
    with pytest.raises(errors.ValueError, match="recursion"):
        p.add_metadata_json("bad", 5000 * "[" + 5000 * "]")
    p.add_metadata("huge", 10**5000)  # type: ignore[arg-type]
    for add in (p.add_metadata, p.add_metadata_json, p.preset_metadata_json):
        with pytest.raises(
            errors.ValueError, match="'traceEvents' is reserved by the trace format"
        ):
            add("traceEvents", "[]")
    assert p.get_trace_id() == "my id"
    plain, packed = tmp_path / "t.json", tmp_path / "t.json.gz"
    p.export_chrome_trace(plain)
    p.export_chrome_trace(str(packed))

    trace = strict(plain.read_bytes())
    assert trace["preset"] == [1, 2] and trace["later"] == {"x": None}
    assert trace["text"].startswith('a"b\\c\n') and trace["trace_id"] == "my id"
    assert trace["with_stack"] == 1 and "record_shapes" not in trace
    [event] = [e for e in trace["traceEvents"] if e.get("cat") == "user_annotation"]
    assert event["args"]["step"] == 1
    assert "test_chrome_trace_and_metadata" in event["args"]["Call stack"]
    with gzip.open(packed, "rt") as file:
        again = json.load(file)
    assert again["traceEvents"] == trace["traceEvents"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["t.json", "t.json.gz"]
    p.export_perfetto_trace(tmp_path / "t.pftrace")
    perfetto = fastprof.load(tmp_path / "t.pftrace").metadata
    for member in ("preset", "later", "text", "trace_id", "own_use"):
        assert perfetto[member] == trace[member]


def test_tensorboard_handler(tmp_path: Path) -> None:
    folder = tmp_path / "made" / "for me"
    for arguments in ({}, {"worker_name": "w", "use_gzip": True}):
        with fastprof.profile(
            on_trace_ready=fastprof.tensorboard_trace_handler(os.fsencode(folder), **arguments)  # type: ignore[arg-type]
        ):
            pass
    first, second = sorted(folder.iterdir(), key=lambda path: len(path.suffixes[-1]))[::-1]
    assert first.name.endswith(".pt.trace.json")
    assert second.name.startswith("w.") and second.name.endswith(".pt.trace.json.gz")
    (tmp_path / "file").write_text("")
    with pytest.raises(errors.IoError, match="Choose another folder"):
        with fastprof.profile(
            on_trace_ready=fastprof.tensorboard_trace_handler(tmp_path / "file" / "x")
        ):
            pass


def test_traces_leave_out_what_the_table_leaves_out(tmp_path: Path) -> None:
    with fastprof.profile(with_stack=True, python_calls=False, profile_memory=True) as p:
        with record_function("around", text="kept"):
            with record_function("before", n=1):
                fastprof.report_memory_usage(1, 64, 64, 64)
            p.toggle_collection_dynamic(False, ["CPU"])
            with record_function("paused", n=2):
                fastprof.report_memory_usage(2, 64, 128, 128)
            fastprof.counter("paused counter", 1)
            p.toggle_collection_dynamic(True, ["CPU"])
            with record_function("after", n=3):
                pass
        p.add_metadata("who", "me")
    chrome, perfetto = tmp_path / "t.json", tmp_path / "t.pftrace.gz"
    p.export_chrome_trace(chrome)
    p.export_perfetto_trace(perfetto)
    assert set(names(p)) == {"around", "before", "after"}
    for path in (chrome, perfetto):
        table = fastprof.load(path)
        found = {table.name(row) for row in range(len(table))}
        assert {"around", "before", "after"} <= found
        assert not any("paused" in name for name in found)
        kinds = table.column("kind")
        assert (kinds == fastprof.EventKind.MEMORY).sum() == 1
    trace = json.loads(chrome.read_text())
    assert trace["who"] == "me" and trace["with_stack"] == 1 and trace["trace_id"]
    [after] = [e for e in trace["traceEvents"] if e["name"] == "after"]
    assert after["args"]["n"] == 3
    assert "test_traces_leave_out" in after["args"]["Call stack"]


def test_perf_counters_of_each_range(tmp_path: Path) -> None:
    from fastprof import _core

    reason = _core.counters_missing(["page-faults", "task-clock"])
    if reason:
        pytest.skip(reason)
    with fastprof.profile(counters=["page-faults", "task-clock"]) as p:
        with record_function("nothing"):
            pass
        with record_function("touches memory"):
            assert len(bytearray(b"x") * (64 << 20)) == 64 << 20
        fastprof.mark("a mark has none")
    counters = p.event_table.coded["counters"]
    few, many = (counters[row] for row in (0, 1))
    assert many["page-faults"] > few["page-faults"] + 10
    assert many["task-clock"] > few["task-clock"] >= 0
    assert counters[2] is None
    fastprof.save(p, tmp_path / "t.fastprof")
    again = fastprof.load(tmp_path / "t.fastprof").coded["counters"]
    assert [again[row] for row in range(3)] == [few, many, None]
    p.export_chrome_trace(tmp_path / "t.json")
    trace = json.loads((tmp_path / "t.json").read_text())
    [event] = [e for e in trace["traceEvents"] if e["name"] == "touches memory"]
    assert event["args"]["page-faults"] == many["page-faults"]


def test_unknown_perf_counters_are_refused_or_told() -> None:
    from fastprof.profiler import options

    with pytest.raises(errors.UnavailableError, match="unknown counter 'bogus'"):
        fastprof.profile(counters=["bogus"])

    class Config:
        performance_events = ("bogus",)

    options._warned.discard("performance_events")
    with pytest.warns(UserWarning, match="unknown counter 'bogus'"):
        p = fastprof.profile(experimental_config=Config())
    assert "bogus" in p.missing["performance_events"]


@pytest.mark.integrations
def test_pytorchs_configuration_asks_for_counters() -> None:
    profiler = pytest.importorskip("torch._C._profiler")
    from fastprof.profiler import options

    options._warned.discard("performance_events")
    config = profiler._ExperimentalConfig(performance_events=["page-faults", "bogus"])
    with pytest.warns(UserWarning, match="unknown counter 'bogus'"):
        p = fastprof.profile(experimental_config=config)
    assert "bogus" in p.missing["performance_events"]
    assert fastprof.profile(experimental_config=profiler._ExperimentalConfig()).missing == {}


@pytest.mark.parametrize("format_name", ["chrome", "perfetto"])
def test_long_writes_tell_how_far_they_are(
    format_name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[tuple[int, int | None]] = []
    stop = False

    @contextmanager
    def progress(what: str) -> Iterator[Any]:
        def show(done: int, total: int | None) -> None:
            told.append((done, total))
            if stop:
                raise KeyboardInterrupt

        yield show

    monkeypatch.setattr(trace_writers, "terminal_progress", progress)
    with fastprof.profile() as p:
        for _ in range(200_000):
            with record_function("a range with a name of some length, to make the file long"):
                pass
    path = tmp_path / "trace"
    write = p.export_chrome_trace if format_name == "chrome" else p.export_perfetto_trace
    write(str(path))
    size_bytes = path.stat().st_size
    steps = [done for done, _ in told]
    assert steps == sorted(set(steps)) and steps[-1] <= size_bytes
    assert len(steps) >= size_bytes // (5 << 20) > 0
    before = path.read_bytes()
    stop = True
    with pytest.raises(KeyboardInterrupt):  # Ctrl-C during the write: the file is unchanged
        write(str(path))
    assert path.read_bytes() == before and list(tmp_path.iterdir()) == [path]
    stop = False
    assert len(p.events()) == 200_000
    write(str(path))
