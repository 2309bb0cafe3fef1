# SPDX-License-Identifier: Apache-2.0
"""profiler_legacy: the exclusive profiler in Python, its byte format and JSON, remote events, node ids."""

from __future__ import annotations

import json
import os
import textwrap
import threading
from pathlib import Path

import pytest
from processes import python

import fastprof
from fastprof import errors
from fastprof.profiler_legacy import decode_events, profile


def run_python(code: str) -> str:
    """Run a program with a time limit, and return its standard output."""
    done = python("-c", textwrap.dedent(code), check=True)
    return done.stdout


def nested(**options: bool) -> profile:
    with profile(**options) as prof, fastprof.record_function("outer"):
        for _ in range(2):
            with fastprof.record_function("inner"):
                pass
    return prof


def test_ranges_are_events() -> None:
    prof = nested()
    events = prof.function_events
    assert events is not None
    assert [event.name for event in events] == ["outer", "inner", "inner"]
    assert all(event.is_legacy and not event.is_async for event in events)
    assert events[1].cpu_parent is events[0] and len(events[0].cpu_children) == 2
    averages = {average.key: average for average in prof.key_averages()}
    assert averages["inner"].count == 2
    assert prof.self_cpu_time_total == pytest.approx(events[0].cpu_time_total)
    assert prof.total_average().count == 3
    assert "outer" in prof.table(sort_by="cpu_time_total", row_limit=1)
    assert str(prof) == str(events) and repr(prof) == repr(events)


def test_before_the_end_and_twice() -> None:
    prof = profile()
    assert repr(prof) == "<unfinished profiler_legacy.profile>"
    assert str(prof) == "<unfinished profile.profiler_legacy.profile>"
    for ask in (prof.table, prof.key_averages, prof.total_average, prof.records, prof.encode):
        with pytest.raises(RuntimeError, match="didn't finish running"):
            ask()
    with prof, pytest.raises(RuntimeError, match="not reentrant"), prof:
        pass
    with profile(), pytest.raises(errors.StateError, match="already enabled"), profile():
        pass
    with profile() as again:  # the failed ones left nothing behind
        pass
    assert list(again.function_events or ()) == []
    with profile(enabled=False) as nothing:
        assert nothing is None


def test_an_exception_ends_it() -> None:
    prof = profile()
    with pytest.raises(KeyError), prof, fastprof.record_function("failing"):
        raise KeyError
    assert [event.name for event in prof.function_events or ()] == ["failing"]


def test_options(tmp_path: Path) -> None:
    assert profile(with_flops=True).record_shapes
    with pytest.warns(UserWarning, match="CUDA is not available"):
        assert not profile(use_cuda=True).use_cuda
    prof = nested(with_stack=True)
    assert prof.function_events is not None
    frames = prof.function_events[0].stack
    assert frames and __file__ in frames[0] and frames[0].endswith(": nested")
    prof.export_stacks(tmp_path / "stacks.txt")
    assert "nested" in (tmp_path / "stacks.txt").read_text()
    with pytest.raises(AssertionError, match="with_stack"):
        nested().export_stacks(tmp_path / "none.txt")
    prof.export_chrome_trace(tmp_path / "trace.json")
    assert "inner" in (tmp_path / "trace.json").read_text()


def test_memory_and_out_of_memory() -> None:
    with profile(profile_memory=True) as prof:
        fastprof.report_memory_usage(0x1000, 32)
        with fastprof.record_function("allocates"):
            fastprof.report_memory_usage(0x2000, 64)
            fastprof.report_out_of_memory(1 << 20)
        fastprof.report_memory_usage(0x1000, -32)
    by_name: dict[str, list[int]] = {}
    for event in prof.function_events or ():
        by_name.setdefault(event.name, []).append(event.cpu_memory_usage)
    assert by_name == {"allocates": [64], "[memory]": [32, -32], "[OutOfMemory]": [1 << 20]}
    failed = next(e for e in prof.function_events or () if e.name == "[OutOfMemory]")
    around = next(e for e in prof.function_events or () if e.name == "allocates")
    assert around.time_range.start <= failed.time_range.start <= around.time_range.end


def test_other_threads_and_propagation() -> None:
    def work() -> None:
        with fastprof.record_function("there"):
            pass

    with profile() as prof:
        for target in (work, fastprof.propagate(work)):
            thread = threading.Thread(target=target)
            thread.start()
            thread.join()
        with fastprof.record_function("here"):
            pass
    assert [e.name for e in prof.function_events or ()] == ["there", "here"]
    assert len(prof.records()) == 2


def test_it_goes_with_profile_inside_and_around() -> None:
    with fastprof.profile() as outer, profile() as legacy, fastprof.profile() as inner:
        with fastprof.record_function("range"):
            pass
    assert [e.name for e in outer.events()] == ["range"] == [e.name for e in inner.events()]
    assert [e.name for e in legacy.function_events or ()] == ["range"]


def test_bytes_and_json(tmp_path: Path) -> None:
    prof = nested()
    local, remote = prof.records(), decode_events(prof.encode())
    assert [[r.name for r in records] for records in local] == [
        [r.name for r in records] for records in remote
    ]
    assert all(r.is_remote for records in remote for r in records)
    assert not any(r.is_remote for records in local for r in records)
    prof.export_json(tmp_path / "records.json")
    written = json.loads((tmp_path / "records.json").read_text())
    assert [r["name"] for r in written["lists"][0]] == [r.name for r in local[0]]
    with pytest.raises(errors.FormatError):
        decode_events(prof.encode()[:-1])


def test_remote_events_of_another_process() -> None:
    sent = bytes.fromhex(
        run_python(
            """
            import fastprof
            from fastprof.profiler_legacy import profile
            fastprof.set_default_node_id(5)
            assert fastprof.default_node_id() == 5
            with profile() as prof, fastprof.record_function("remote range"):
                pass
            print(prof.encode().hex())
            """
        )
    )
    with profile() as prof:
        with fastprof.record_function("local range"):
            pass
        fastprof.add_remote_events(sent)
        with pytest.raises(errors.FormatError):
            fastprof.add_remote_events(sent[:-3])
    found = {e.name: e for e in prof.function_events or ()}
    assert found["remote range"].is_remote and found["remote range"].node_id == 5
    assert not found["local range"].is_remote and found["local range"].node_id == -1
    assert "Node ID" in prof.table()
    with pytest.raises(errors.StateError, match="must be enabled"):
        fastprof.add_remote_events(sent)


def test_the_default_node_id_is_in_profiles() -> None:
    out = run_python(
        """
        import fastprof
        assert fastprof.default_node_id() == -1
        try:
            fastprof.set_default_node_id(-2)
        except fastprof.errors.ValueError:
            pass
        fastprof.set_default_node_id(3)
        with fastprof.profile() as prof:
            with fastprof.record_function("own", node_id=7):
                with fastprof.record_function("default"):
                    pass
        print([(e.name, e.node_id) for e in prof.events()])
        """
    )
    assert out.strip() == "[('own', 7), ('default', 3)]"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_child_has_an_empty_profile() -> None:
    out = run_python(
        """
        import os, fastprof
        from fastprof.profiler_legacy import profile
        with profile() as prof:
            with fastprof.record_function("before"):
                pass
            child = os.fork()
            with fastprof.record_function("after"):
                pass
        names = [e.name for e in prof.function_events]
        if child == 0:
            os._exit(0 if names == [] else 1)
        status = os.waitpid(child, 0)[1]
        print(names, status)
        """
    )
    assert out.strip() == "['before', 'after'] 0"


def test_tables_are_those_of_the_events() -> None:
    prof = nested()
    events = prof.function_events
    assert events is not None
    events[1].name = "n" * 80
    events[1].input_shapes = [[1, 2, 3]] * 20
    assert prof.table() == events.table() and "[1, 2, 3]" in prof.table()
    assert len(events.table()) < len(prof.table(max_name_column_width=70))
