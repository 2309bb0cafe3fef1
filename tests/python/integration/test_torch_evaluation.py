# SPDX-License-Identifier: Apache-2.0
"""fastprof.analysis against torch.profiler._utils on the same inputs, where the published results are right."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch", reason="needs torch")
_utils = pytest.importorskip("torch.profiler._utils", reason="this torch has no _utils")

import fastprof  # noqa: E402
from fastprof import analysis  # noqa: E402

pytestmark = pytest.mark.integrations


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
