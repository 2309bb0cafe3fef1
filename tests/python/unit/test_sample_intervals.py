# SPDX-License-Identifier: Apache-2.0
"""Confidence intervals of sampled shares, against tables drawn by hand."""

import numpy as np
import pytest

from fastprof.model.sampled_stacks import AWAITS_STATE, SampledStacks
from fastprof.views.samples import Samples, wilson_interval

MS = 1_000_000


def stacks(runs, state, **more):
    """Samples at 100 Hz of the functions f and g, from rows of (first ms, last ms, thread, node, count)."""
    first, last, thread, node, count = (np.array(column) for column in zip(*runs, strict=True))
    return SampledStacks(
        hz=100, first_ns=first * MS, last_ns=last * MS, thread=thread, node=node, count=count,
        state=np.full(len(first), state, np.uint8), parent=np.array([-1, -1]), code=np.array([0, 1]),
        line=np.array([1, 1]), codes=(("f", "a.py", 1), ("g", "a.py", 9)),
        threads=tuple((i, f"t{i}") for i in range(int(thread.max()) + 1)), counts={}, **more,
    )  # fmt: skip


def interval(found, mode):
    (f,) = (share for share in Samples(found).shares(mode=mode) if share.name == "f")
    return f.own_share, (f.own_low, f.own_high)


@pytest.mark.parametrize(("state", "mode"), [(AWAITS_STATE, "awaits"), (0, "wall")])
def test_samples_of_one_tick_are_one(state, mode):
    """100 tasks (or threads) wait in f in ticks 0 to 3 and in g in ticks 4 to 9: 4 of 10, not 400 of 1,000."""
    runs = [row for i in range(100) for row in [(0, 30, i, 0, 4), (40, 90, i, 1, 6)]]
    assert interval(stacks(runs, state, tasks_hz=100), mode) == (0.4, wilson_interval(4, 10))
    # Of two groups with a pause between, by 1 us from task to task.
    found = stacks([(at, at, i, at > 100, 1) for i in range(50) for at in (0, 200)], state)
    found.first_ns[:] += 1000 * found.thread
    found.last_ns[:] = found.first_ns
    assert interval(found, mode) == (0.5, wilson_interval(1, 2))


def test_samples_of_one_thread_are_independent():
    """f in ticks 0 to 29, g in 30 to 39, none of this thread for a while, and f again: 40 of 50."""
    runs = [(0, 290, 0, 0, 30), (300, 390, 0, 1, 10), (900, 990, 0, 0, 10)]
    assert interval(stacks(runs, 0), "wall") == (0.8, wilson_interval(40, 50))


@pytest.mark.parametrize("mode", ["gil_wait", "exception", "awaits"])
def test_a_table_without_a_matching_sample_says_so(mode):
    found = Samples(stacks([(0, 30, 0, 0, 4)], 0))
    assert found.shares(mode=mode) == []
    assert "no such samples\n0 samples" in found.table(mode=mode)
