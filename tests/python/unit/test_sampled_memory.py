# SPDX-License-Identifier: Apache-2.0
"""python_memory=True, a sample: unbiased sums with true errors, frees and reallocs, threads, growth; exact on request.

Bounds are six standard errors: a right program fails once in 10^8 runs.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from bytearrays import MORE_BYTES, OF_BYTEARRAY

import fastprof
from fastprof import errors
from fastprof.analysis import explain, memory_report
from fastprof.analysis.memory_blocks import MemorySums, memory_blocks

SAMPLED = f"{OF_BYTEARRAY} (sampled)"


def sums_of(run: Callable[[], Any], mode: bool | str = True) -> MemorySums:
    """Return the sums of the allocator of bytearrays over a run, whose result is kept until the end."""
    with fastprof.profile(python_memory=mode) as prof:
        kept = run()
    (found,) = (b.sums() for b in memory_blocks(prof.event_table) if OF_BYTEARRAY in b.device)
    assert found.difference_bytes == found.lost_frees == 0
    del kept
    return found


def test_sums_are_unbiased_and_their_errors_are_true() -> None:
    sizes = [size for size in (500, 3000, 20_000, 150_000) for _ in range(3_000_000 // size)]

    def run() -> Any:
        [bytearray(size) for size in sizes]
        return [bytearray(size) for size in sizes]

    exact = sums_of(run, "exact")
    assert exact.allocated >= 2 * sum(size + MORE_BYTES for size in sizes)
    runs = [sums_of(run) for _ in range(30)]
    for expected, values, deviations in (
        (exact.allocated, [s.allocated for s in runs], [s.allocated_error for s in runs]),
        (
            exact.in_use_at_end,
            [s.in_use_at_end for s in runs],
            [s.in_use_at_end_error for s in runs],
        ),
    ):
        assert abs(sum(values) - 30 * expected) < 6 * float(np.linalg.norm(deviations))
        assert 0.35 < np.std(values, ddof=1) / np.mean(deviations) < 2


def test_churn_leaves_nothing_and_a_block_that_grows_counts_once() -> None:
    def churn() -> None:
        for i in range(20_000):
            bytearray(i % 4000)

    def grow() -> bytearray:
        block = bytearray()
        for _ in range(50):
            block.extend(bytes(200_000))
        return block

    found = sums_of(churn)
    assert found.allocated == pytest.approx(40e6, abs=6 * found.allocated_error + 3e6)
    assert found.in_use_at_end < 500_000
    grown = sums_of(grow)
    assert grown.in_use_at_end + 6 * grown.in_use_at_end_error >= 10_000_000
    assert grown.in_use_at_end < 13_000_000  # a bytearray reserves an eighth more


def test_threads_sample_for_themselves() -> None:
    def run() -> list[Any]:
        held: list[Any] = []
        threads = [
            threading.Thread(target=lambda: held.append([bytearray(2000) for _ in range(6000)]))
            for _ in range(4)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return held

    found = sums_of(run)
    bound = 6 * found.in_use_at_end_error
    assert 48_000_000 - bound < found.in_use_at_end < 50_400_000 + bound


def test_an_exact_profile_in_a_sampled_one_records_each_block() -> None:
    with fastprof.profile(python_memory=True) as outer:
        early = [bytearray(1000) for _ in range(2000)]
        with fastprof.profile(python_memory="exact") as inner:
            kept = [bytearray(1000 + i) for i in range(100)]
        del kept  # frees of blocks that were recorded exactly are found
        del early
    of_inner = {b.device: b for b in memory_blocks(inner.event_table)}
    wanted = [1000 + i + MORE_BYTES for i in range(100)]
    found = [size for size in of_inner[OF_BYTEARRAY].record_bytes.tolist() if 1000 <= size < 1200]
    assert found == wanted
    by_device = {b.device: b.sums() for b in memory_blocks(outer.event_table)}
    # What stays is less than 10 KB of others' objects; each of them that is in the sample stands for 64 KB.
    for device, most in ((OF_BYTEARRAY, 50_000), (SAMPLED, 500_000)):
        assert by_device[device].difference_bytes == 0
        assert by_device[device].in_use_at_end < most
    with pytest.raises(errors.ValueError, match="'exact'"):
        fastprof.profile(python_memory="each").start()


@pytest.mark.parametrize("mode", [True, "exact"])
def test_a_leak_of_a_block_a_step_is_one_line(mode: bool | str) -> None:
    kept = []
    schedule = fastprof.schedule(wait=0, warmup=1, active=11)
    with fastprof.profile(python_memory=mode, schedule=schedule) as prof:
        for step in range(12):
            with fastprof.record_function("forward"):
                kept.append(bytearray((1280 << 10) - MORE_BYTES))  # large: always in the sample
                state = bytearray(100_000 * step)  # replaced in each step
            if step < 11:
                prof.step()
    assert len(kept) == 12 and len(state) == 1_100_000
    report = memory_report(prof, OF_BYTEARRAY)
    (growth,) = report.devices[0].growth
    text = "11 x 1.25 MB, never freed, in forward; 1.25 MB a step in 11 steps ("
    assert growth.text().startswith(text)
    assert growth.text() in report.text()
    assert growth.text() in explain(prof).text()
    assert growth.text() in [line for line, _ in explain(prof, breakdown=False).findings()]
