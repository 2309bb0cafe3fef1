# SPDX-License-Identifier: Apache-2.0
"""BasicEvaluation against brute force over nanoseconds; traversal, ranking and the FX mapping by hand."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import fastprof
from fastprof.analysis import (
    BasicEvaluation,
    EventKey,
    EventMetrics,
    Interval,
    argmax,
    index_of_first_match,
    map_recorded_events_to_aten_ops_with_stack_trace,
    source_code_location,
    traverse_bfs,
    traverse_dfs,
)

SITES = [
    fastprof.Site("op", category="cpu_op"),
    fastprof.Site("cudaLaunchKernel", category="cuda_runtime"),
    fastprof.Site("kernel", category="kernel"),
]
SPANS = st.lists(st.tuples(st.integers(0, 40), st.integers(0, 15)), max_size=8)


class _Event:
    def __init__(self, name: str, start: int = 0, end: int = 0, parent: Any = None) -> None:
        self.id, self.name, self.parent, self.children = id(self), name, parent, []
        self.start_time_ns, self.end_time_ns = start, end
        if parent is not None:
            parent.children.append(self)


def gpu_table(ops: Any, work: Any) -> fastprof.EventTable:
    """ops: (start, end). work: (op, launch time, kernel start, kernel end, stream)."""
    rows = [(start, end, 0, 0, index + 1, 0, 0, 0) for index, (start, end) in enumerate(ops)]
    for op, launch, begin, end, stream in work:
        rows.append((launch, launch + 1, 1, 0, 0, op + 1, 0, 0))
        rows.append((begin, end, 2, 1 + stream, 0, op + 1, 1, stream))
    start, end, site, track, external, link, device, stream = zip(*rows, strict=True)
    columns = {
        "start_ns": start, "end_ns": end, "site": site, "track": track, "external_id": external,
        "linked_correlation_id": link, "device_type": device, "device_resource_id": stream,
    }  # fmt: skip
    return fastprof.EventTable(columns, sites=SITES)


@given(SPANS, SPANS)
@settings(max_examples=150, deadline=None)
def test_overlap_is_that_of_the_union_and_changes_nothing(events: Any, spans: Any) -> None:
    intervals = [Interval(start, start + length) for start, length in spans]
    before = copy.deepcopy(intervals)
    covered = {ns for start, length in spans for ns in range(start, start + length)}
    for start, length in events:
        key = EventKey(_Event("e", start, start + length))
        expected = len(covered & set(range(start, start + length)))
        assert key.intervals_overlap(intervals) == expected
    assert intervals == before


@given(
    st.lists(
        st.tuples(st.integers(0, 2), st.integers(0, 40), st.integers(0, 20), st.integers(1, 9)),
        min_size=1,
        max_size=10,
    )
)
@settings(max_examples=150, deadline=None)
def test_queue_depth_and_idle_time_by_brute_force(drawn: Any) -> None:
    # Each op's kernels run in order of their launches, each op on its own stream.
    launched = sorted(drawn, key=lambda item: item[1])
    work, free = [], [0, 0, 0]
    for op, launch, wait, length in launched:
        begin = max(launch + wait, free[op])
        free[op] = begin + length
        work.append((op, launch, begin, begin + length, op))
    ops = [(0, 90), (5, 60), (20, 30)]
    table = gpu_table(ops, work)
    evaluation = BasicEvaluation(table)

    def depth(ns: int) -> int:
        return sum(launch <= ns < begin for _, launch, begin, _, _ in work)

    for key, metric in evaluation.metrics.items():
        assert metric.queue_depth == depth(key.event.start_time_ns)
    for record in evaluation.queue_depth_list:
        assert record.queue_depth == depth(record.start)
    busy = {ns for _, _, begin, end, _ in work for ns in range(begin, end)}
    first = min(w[1] for w in work)
    # Idle: nothing queued and nothing running, by the records; a kernel that runs beside others keeps it busy.
    idle = {ns for ns in range(200) if ns not in busy and (ns < first or depth(ns) == 0)}
    for key, metric in evaluation.metrics.items():
        of_event = set(range(key.event.start_time_ns, key.event.end_time_ns))
        assert metric.idle_time_ns == len(idle & of_event), key


def test_a_graph_launch_counts_all_its_kernels() -> None:
    table = gpu_table([(0, 100)], [(0, 10, 20, 30, 0)])
    rows = np.append(np.arange(len(table)), [2, 2])  # two more kernels of the one launch
    depth = BasicEvaluation(table[rows]).queue.depth_at(np.array([9, 10, 19, 20]))
    assert depth.tolist() == [0, 3, 3, 0]


def test_ranking_finds_the_event_that_lets_the_queue_run_empty(
    capsys: pytest.CaptureFixture[str],
) -> None:
    work = [(0, 10 + i, 20 + 10 * i, 30 + 10 * i, 0) for i in range(5)]
    table = gpu_table([(0, 20), (25, 400), (500, 510)], work)
    evaluation = BasicEvaluation(table)
    (best,) = evaluation.get_optimizable_events()
    assert (best.event.start_time_ns, best.event.end_time_ns) == (25, 400)
    assert evaluation.metrics[best].idle_time_ns == 400 - 70
    text = capsys.readouterr().out
    assert text.startswith("Optimizable events:\n" + "-" * 80)
    assert "Percentage idle time: 88.00%" in text
    assert BasicEvaluation(table[:1]).get_optimizable_events(3) == []
    assert "No events to optimize" in capsys.readouterr().out


def test_metrics_of_a_table_without_devices() -> None:
    table = fastprof.EventTable(
        {"start_ns": [20, 0, 10], "end_ns": [30, 100, 40], "site": [0, 0, 0]}, sites=SITES
    )
    evaluation = BasicEvaluation(table)
    assert [event.start_time_ns for event in evaluation.events] == [0, 10, 20]
    own = [evaluation.metrics[key].self_time_ns for key in evaluation.event_keys]
    assert own == [70, 20, 10]
    assert len(evaluation.queue_depth_list) == len(evaluation.cuda_events) == 0
    assert EventMetrics().fraction_idle_time == 0.0
    with pytest.raises(fastprof.errors.ValueError, match=r"fastprof\.load"):
        BasicEvaluation(object())


def test_a_profile_is_evaluated_and_its_tree_traversed() -> None:
    with fastprof.profile() as prof:
        for _ in range(2):
            with fastprof.record_function("outer"), fastprof.record_function("inner"):
                pass
    evaluation = BasicEvaluation(prof)
    roots = [event for key in evaluation.event_keys if (event := key.event).parent is None]
    names = [event.name for event in traverse_dfs(roots)]
    assert names == ["outer", "inner"] * 2
    names = [event.name for event in traverse_bfs(roots)]
    assert names == ["outer"] * 2 + ["inner"] * 2


def test_small_functions() -> None:
    assert index_of_first_match([1, 5, 5], lambda x: x == 5) == 1
    assert index_of_first_match([1, 5, 5], lambda x: x == 5, start=2, end=9) == 2
    assert index_of_first_match([1, 5], lambda x: x == 5, end=1) is None
    assert argmax([3, 9, 9], start=2) == 2
    assert argmax([3, 9, 1], key=lambda x: -x, end=2) == 0
    assert argmax([], start=0) is None
    call = _Event("train.py(3): step")
    assert source_code_location(_Event("aten::mm", parent=call)) == "train.py(3): step"
    assert source_code_location(_Event("aten::mm")) == "No source code location found"


def _x(name: str, ts: int, dur: int, tid: int = 1, cat: str = "cpu_op") -> dict[str, Any]:
    return {"name": name, "ts": ts, "dur": dur, "tid": tid, "pid": 1, "cat": cat}


def test_fx_nodes_reach_the_events_of_their_own_thread_only() -> None:
    registry = {"m.py": {"node_metadata": {0: {"stack_trace": "line 1", "name": "a"}, 1: {}}}}
    events = [
        _x("## m.py ##", 0, 100),
        _x("## 0 ##", 10, 20),
        _x("## 0 ##", 10, 5, tid=2),  # no file marker there; its end must not end thread 1's
        _x("## what ##", 11, 2),
        _x("mm", 20, 5),
        _x("mm", 20, 5, tid=2),
        _x("at the end", 30, 5),
        _x("## 1 ##", 40, 10),
        _x("no trace", 41, 1),
        {"name": "a mark", "ts": 15},
    ]
    data = {"traceEvents": events, "schemaVersion": 1}
    before = copy.deepcopy(data)
    mapped = map_recorded_events_to_aten_ops_with_stack_trace(data, registry)
    assert data == before
    found = {e["name"]: e["args"] for e in mapped["traceEvents"] if "args" in e}
    assert found == {
        "mm": {"stack_trace": "line 1", "node_name": "a"},
        "no trace": {"stack_trace": "No model stack trace available"},
    }
    assert [("args" in e) for e in mapped["traceEvents"]][4:6] == [True, False]
    assert mapped["schemaVersion"] == 1


def test_the_published_names_are_in_profiler_utils() -> None:
    from fastprof.profiler import _utils

    assert _utils.BasicEvaluation is BasicEvaluation
    _utils._init_for_cuda_graphs()
