# SPDX-License-Identifier: Apache-2.0
"""fastprof.analysis against torch.profiler._utils on the same inputs, where the published results are right."""

from __future__ import annotations

import copy
import random

import pytest

torch = pytest.importorskip("torch", reason="needs torch")
_utils = pytest.importorskip("torch.profiler._utils", reason="this torch has no _utils")

import fastprof  # noqa: E402
from fastprof import analysis  # noqa: E402

pytestmark = pytest.mark.integrations


class _Event:
    def __init__(self, start, end, children=()):
        self.id, self.name, self.children = id(self), "e", list(children)
        self.start_time_ns, self.end_time_ns = start, end


def test_overlap_with_disjoint_intervals_of_equal_gaps():
    # With intervals that do not touch each other, none of the published defects applies.
    draw = random.Random(5)
    for _ in range(200):
        edges = sorted(draw.sample(range(100), 2))
        pairs = [(a, a + 4) for a in range(draw.randrange(9), 100, 9)]
        theirs = _utils.EventKey(_Event(*edges)).intervals_overlap(
            [_utils.Interval(*pair) for pair in pairs]
        )
        ours = analysis.EventKey(_Event(*edges)).intervals_overlap(
            [analysis.Interval(*pair) for pair in pairs]
        )
        assert ours == theirs


def test_traversal_and_search():
    roots = [
        _Event(0, 1, [_Event(0, 1, [_Event(0, 1)]), _Event(0, 1)]),
        _Event(0, 1, [_Event(0, 1)]),
    ]
    for name in ("traverse_dfs", "traverse_bfs"):
        assert list(getattr(analysis, name)(roots)) == list(getattr(_utils, name)(roots))
    values = [3, 1, 4, 1, 5, 9, 2, 6, 5]
    for start in range(9):
        for end in (None, 4, 9, 20):
            arguments = {"start": start, "end": end}
            assert analysis.argmax(values, **arguments) == _utils.argmax(values, **arguments)
            ours = analysis.index_of_first_match(values, lambda v: v > 4, **arguments)
            assert ours == _utils.index_of_first_match(values, lambda v: v > 4, **arguments)


def test_fx_mapping_of_one_thread(monkeypatch):
    from torch.fx import traceback

    nodes = {n: {"stack_trace": f"line {n}", "name": f"node{n}"} for n in (0, 1)}
    monkeypatch.setattr(traceback, "_FX_METADATA_REGISTRY", {"m.py": {"node_metadata": nodes}})

    def event(name, ts, dur):
        return {"name": name, "ts": ts, "dur": dur, "tid": 1, "pid": 1, "cat": "cpu_op"}

    spans = [("## m.py ##", 0, 99), ("## 0 ##", 5, 20), ("mm", 7, 2), ("## 1 ##", 30, 20)]
    data = {"traceEvents": [event(*span) for span in [*spans, ("add", 33, 2), ("sub", 60, 2)]]}
    ours = analysis.map_recorded_events_to_aten_ops_with_stack_trace(data)
    theirs = copy.deepcopy(data)
    _utils.map_recorded_events_to_aten_ops_with_stack_trace(theirs)
    assert ours["traceEvents"] == theirs["traceEvents"]


def test_anti_patterns_of_the_same_work_are_those_that_torch_matches():
    from torch.profiler import _pattern_matcher as theirs

    model = torch.nn.Sequential(torch.nn.Conv2d(1, 2, 3), torch.nn.BatchNorm2d(2))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, foreach=False)

    def work():
        for _ in range(2):
            optimizer.zero_grad(set_to_none=False)
            model(torch.ones(2, 1, 8, 8)).sum().backward()
            optimizer.step()
        half = torch.ones(9, 9, dtype=torch.half)
        torch.mm(half, half)

    work()
    with torch.profiler.profile(with_stack=True, record_shapes=True) as published:
        work()
    with fastprof.profile(with_stack=True, record_shapes=True) as prof:
        work()
    ours = {found.pattern.name: found.count for found in analysis.find_anti_patterns(prof)}
    for pattern in (
        theirs.OptimizerSingleTensorPattern,
        theirs.GradNotSetToNonePattern,
        theirs.Conv2dBiasFollowedByBatchNorm2dPattern,
        theirs.MatMulDimInFP16Pattern,
    ):
        matcher = pattern(published)
        assert ours.pop(matcher.name) == len(matcher.matched_events()), matcher.name
    assert ours == {}


def test_loops_and_loaders_are_found_as_torch_finds_them():
    from torch.profiler import _pattern_matcher as theirs

    values = torch.arange(40.0).reshape(20, 2)

    def work():
        total = torch.zeros(2)
        for i in range(20):
            total = total + values[i]
        for _ in torch.utils.data.DataLoader(list(range(6)), batch_size=2):
            pass

    work()
    with torch.profiler.profile(with_stack=True, record_shapes=True) as published:
        work()
    with fastprof.profile(with_stack=True, record_shapes=True) as prof:
        work()
    ours = {found.pattern.name for found in analysis.find_anti_patterns(prof)}
    for pattern in (theirs.ForLoopIndexingPattern, theirs.SynchronizedDataLoaderPattern):
        matcher = pattern(published)
        assert bool(matcher.matched_events()) == (matcher.name in ours), matcher.name
    assert "Synchronized DataLoader Pattern" in ours
