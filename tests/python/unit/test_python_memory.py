# SPDX-License-Identifier: Apache-2.0
"""python_memory="exact": what Python's allocators do, to the byte, beside tracemalloc, on threads, in forks."""

from __future__ import annotations

import os
import textwrap
import threading
import tracemalloc
import warnings
from typing import Any

import numpy as np
import pytest
from bytearrays import MORE_BYTES, OF_BYTEARRAY
from processes import python
from waiting_threads import run_threads

import fastprof
from fastprof import _core
from fastprof.analysis import memory_report
from fastprof.analysis.memory_blocks import memory_blocks

LARGE = 300_000  # bytes of a bytearray


def sizes_of(prof: Any, device: str, least: int = 100_000) -> list[int]:
    """Return the signed sizes of the large records of an allocator."""
    (blocks,) = (b for b in memory_blocks(prof.event_table) if b.device == device)
    return [size for size in blocks.record_bytes.tolist() if abs(size) >= least]


def test_allocations_and_frees_are_records_of_their_domain_and_range() -> None:
    with fastprof.profile(python_memory="exact", with_stack=True) as prof:
        with fastprof.record_function("kept"):
            kept = bytearray(LARGE)
        with fastprof.record_function("freed"):
            bytearray(2 * LARGE)
    assert len(kept) == LARGE
    assert sizes_of(prof, OF_BYTEARRAY) == [
        LARGE + MORE_BYTES,
        2 * LARGE + MORE_BYTES,
        -2 * LARGE - MORE_BYTES,
    ]
    report = memory_report(prof, OF_BYTEARRAY).devices[0]
    assert report.parts[0].ranges == ("freed",)
    assert "test_python_memory" in report.parts[0].stack[0]
    averages = {row.key: row for row in prof.key_averages()}
    assert averages["kept"].cpu_memory_usage > LARGE - 10_000  # small objects are freed meanwhile
    assert abs(averages["freed"].cpu_memory_usage) < 10_000


def test_totals_reconcile_to_the_byte_while_threads_allocate() -> None:
    def churn(seed: int) -> None:
        held: list[bytes] = []
        for i in range(300):
            held.append(bytes((seed * 31 + i * 17) % 5000))
            if i % 3 == 0:
                held.pop(i % len(held))

    with fastprof.profile(python_memory="exact") as prof:
        run_threads(*(threading.Thread(target=churn, args=(seed,)) for seed in range(4)))
    assert not prof.event_table.dropped
    sums = {b.device: b.sums() for b in memory_blocks(prof.event_table)}
    assert sums.keys() == {"python:mem", "python:object", "python:raw"}
    for one in sums.values():
        assert one.difference_bytes == one.lost_frees == one.in_use_at_begin == 0
        assert one.allocated - one.freed == one.in_use_at_end
    assert sums["python:object"].allocated > 4 * 300 * 1000


def test_what_tracemalloc_sees_of_the_same_objects_is_the_same() -> None:
    """Both hook the same domains: growth by objects of one line is equal to the byte."""

    def make() -> list[Any]:
        return [bytearray(n) for n in range(1000, 60_000, 500)]

    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        theirs = make()
        grown = tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()
    with fastprof.profile(python_memory="exact") as prof, fastprof.record_function("make"):
        ours = make()
    assert len(theirs) == len(ours)
    (row,) = (row for row in prof.key_averages() if row.key == "make")
    # The list itself is preallocated alike; small differences are of freed frames.
    assert abs(row.cpu_memory_usage - grown) < 2000


def test_a_failed_request_is_a_visible_row() -> None:
    with (
        fastprof.profile(python_memory="exact", with_stack=True) as prof,
        fastprof.record_function("too much"),
        pytest.raises(MemoryError),
    ):
        bytearray(1 << 60)
    (failure,) = memory_report(prof).failures
    assert (failure.device, failure.size_bytes) == (OF_BYTEARRAY, (1 << 60) + MORE_BYTES)
    assert failure.ranges == ("too much",)
    assert "[OutOfMemory]" in prof.key_averages().table()
    assert "Out of memory: 1 requests failed" in memory_report(prof).text()
    assert any(
        event["action"] == "oom" and event["size"] == (1 << 60) + MORE_BYTES
        for trace in prof.memory_snapshot("python")["device_traces"]
        for event in trace
    )


def test_nothing_is_recorded_without_the_option_and_nothing_stays() -> None:
    hooks = _core.PythonAllocations(True)
    assert not hooks.active
    with fastprof.profile(profile_memory=True) as prof:
        bytearray(LARGE)
    assert memory_blocks(prof.event_table) == []
    hooks.begin()
    hooks.begin()
    assert hooks.active
    assert hooks.end() == hooks.end() == ""
    with fastprof.profile(enabled=False, python_memory="exact") as off:
        bytearray(LARGE)
    assert len(off.events()) == 0


def test_nested_profiles_share_the_hooks() -> None:
    with fastprof.profile(python_memory="exact") as outer:
        first = bytearray(LARGE)
        with fastprof.profile(python_memory="exact") as inner:
            second = bytearray(LARGE + 5)
            del first
        third = bytearray(LARGE + 9)
    assert sizes_of(inner, OF_BYTEARRAY) == [LARGE + 5 + MORE_BYTES, -LARGE - MORE_BYTES]
    assert sizes_of(outer, OF_BYTEARRAY) == [
        LARGE + MORE_BYTES,
        LARGE + 5 + MORE_BYTES,
        -LARGE - MORE_BYTES,
        LARGE + 9 + MORE_BYTES,
    ]
    (blocks,) = (b for b in memory_blocks(inner.event_table) if b.device == OF_BYTEARRAY)
    assert blocks.sums().in_use_at_begin >= LARGE + MORE_BYTES  # its free shows it
    assert len(second) + len(third) == 2 * LARGE + 14


def test_tracemalloc_started_before_goes_on_below() -> None:
    tracemalloc.start()
    try:
        with fastprof.profile(python_memory="exact") as prof:
            kept = bytearray(LARGE)
        assert "python_memory" not in prof.missing
        assert tracemalloc.get_object_traceback(kept) is not None
        assert tracemalloc.get_traced_memory()[0] >= LARGE
    finally:
        tracemalloc.stop()
    assert sizes_of(prof, OF_BYTEARRAY) == [LARGE + MORE_BYTES]


def test_tracemalloc_around_the_end_of_a_profile_keeps_its_hooks() -> None:
    prof = fastprof.profile(python_memory="exact")
    prof.start()
    tracemalloc.start()
    prof.stop()
    try:
        kept = bytearray(LARGE)
        assert tracemalloc.get_traced_memory()[0] >= LARGE
    finally:
        tracemalloc.stop()
    with fastprof.profile(python_memory="exact") as again:
        bytearray(LARGE + 1)
    assert sizes_of(again, OF_BYTEARRAY) == [LARGE + 1 + MORE_BYTES, -LARGE - 1 - MORE_BYTES]
    assert len(kept) == LARGE


def test_an_allocator_that_was_taken_away_is_reported() -> None:
    tracemalloc.start()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        with fastprof.profile(python_memory="exact") as prof:
            bytearray(LARGE)
            tracemalloc.stop()  # restores what it found, without our hooks
            bytearray(LARGE)
    assert "raw, mem, object" in prof.missing["python_memory"]
    assert any(
        "python_memory" in str(w.message) or "memory of Python" in str(w.message) for w in caught
    )
    assert sizes_of(prof, OF_BYTEARRAY)[:2] == [LARGE + MORE_BYTES, -LARGE - MORE_BYTES]


def test_data_of_numpy_come_from_malloc_and_are_not_seen() -> None:
    with fastprof.profile(python_memory="exact") as prof:
        array = np.zeros(10 * LARGE, np.uint8)
        buffer = np.frombuffer(bytearray(LARGE), np.uint8)  # memory of Python's
    assert sizes_of(prof, OF_BYTEARRAY) == [LARGE + MORE_BYTES]
    assert array.nbytes + buffer.nbytes == 11 * LARGE


def test_a_snapshot_of_a_running_profile_leaves_its_own_work_out() -> None:
    with fastprof.profile(python_memory="exact") as prof:
        kept = bytearray(LARGE)
        first = prof.memory_snapshot(OF_BYTEARRAY)
        second = prof.memory_snapshot(OF_BYTEARRAY)
        more = bytearray(LARGE)
    sizes = [[s["total_size"] for s in one["segments"]] for one in (first, second)]
    assert sizes[0].count(LARGE + MORE_BYTES) == sizes[1].count(LARGE + MORE_BYTES) == 1
    assert len(sizes[1]) - len(sizes[0]) < 50
    assert sizes_of(prof, OF_BYTEARRAY) == [LARGE + MORE_BYTES, LARGE + MORE_BYTES]
    assert len(kept) == len(more)


def run(program: str, *arguments: str, **environment: str) -> str:
    done = python("-c", textwrap.dedent(program), *arguments, check=True, **environment)
    return done.stdout


FORK = """
    import os, sys, warnings, fastprof
    from fastprof.analysis.memory_blocks import memory_blocks
    warnings.simplefilter("ignore")
    more_bytes = int(sys.argv[1])
    prof = fastprof.profile(python_memory="exact")
    prof.start()
    kept = bytearray(300_000)
    pid = os.fork()
    if pid == 0:
        del kept
        with fastprof.profile(python_memory="exact") as own:
            bytearray(400_000)
        sizes = [s for b in memory_blocks(own.event_table) for s in b.record_bytes.tolist() if abs(s) > 200_000]
        os._exit(0 if sizes == [400_000 + more_bytes, -400_000 - more_bytes] else 1)
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    prof.stop()
    sizes = [s for b in memory_blocks(prof.event_table) for s in b.record_bytes.tolist() if abs(s) > 200_000]
    print(code, sizes)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs os.fork")
def test_a_forked_child_starts_anew() -> None:
    assert run(FORK, str(MORE_BYTES)).strip() == f"0 [{LARGE + MORE_BYTES}]"


EXIT = """
    import fastprof
    prof = fastprof.profile(python_memory="exact")
    prof.start()
    kept = [bytearray(1000) for _ in range(100)]
"""


@pytest.mark.parametrize("allocator", ["pymalloc", "malloc", "pymalloc_debug"])
def test_an_interpreter_that_exits_while_it_records(allocator: str) -> None:
    run(EXIT, PYTHONMALLOC=allocator)
