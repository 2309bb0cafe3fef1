# SPDX-License-Identifier: Apache-2.0
"""Files for Firefox's profiler show when sampled threads waited."""

import numpy as np
import pytest

import fastprof
from fastprof.decode.sample_rows import with_samples
from fastprof.exporters.gecko import gecko_profile
from fastprof.model.sampled_stacks import ON_CPU, WAITS, SampledStacks

SLEEP, GIL = WAITS.index("sleep"), WAITS.index("waits for the GIL")
# f runs, sleeps, calls g, which waits for the GIL and then runs, and returns: (ms, node, state), 10 samples each.
RUNS = [(0, 0, ON_CPU), (10, 0, SLEEP << 4), (20, 1, GIL << 4), (30, 1, ON_CPU), (40, 0, ON_CPU)]
EXPECTED = [
    (0, "f", "Python", "Other"), (10, "f", "Idle", "sleep"), (20, "g", "Blocked", "Other"),
    (30, "g", "Python", "Other"), (40, "f", "Python", "Other"), (50, None, None, None),
]  # fmt: skip


@pytest.fixture(params=["00000", "00111"], ids=["one thread", "a thread state after another"])
def table(request):
    thread = np.array([*map(int, request.param)], np.uint32)
    first, node, state = (np.array(column) for column in zip(*RUNS, strict=True))
    found = SampledStacks(
        hz=1000, first_ns=first * 1_000_000, last_ns=(first + 9) * 1_000_000, thread=thread, node=node,
        count=np.full(5, 10), state=state, parent=np.array([-1, 0]), code=np.array([0, 1]), line=np.array([1, 2]),
        codes=(("f", "a.py", 1), ("g", "a.py", 9)), threads=((7, "worker"),) * 2, counts={},
    )  # fmt: skip
    nothing = fastprof.EventTable(
        {"start_ns": [], "end_ns": [], "site": [], "parent": []}, sites=(), pid=7
    )
    return with_samples(nothing, found)


def test_waits_are_categories(table):
    profile = gecko_profile(table)
    (thread,) = profile["threads"]
    stacks, shown, categories = thread["stackTable"], [], profile["meta"]["categories"]
    for at, stack in zip(thread["samples"]["time"], thread["samples"]["stack"], strict=True):
        if stack is None:
            shown.append((at, None, None, None))
            continue
        function = thread["frameTable"]["func"][stacks["frame"][stack]]
        category = categories[stacks["category"][stack]]
        name = thread["stringArray"][thread["funcTable"]["name"][function]]
        shown.append(
            (at, name, category["name"], category["subcategories"][stacks["subcategory"][stack]])
        )
    last = {row[0]: row for row in shown}  # of several at one time
    assert list(last.values()) == EXPECTED
