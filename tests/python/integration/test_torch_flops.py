# SPDX-License-Identifier: Apache-2.0
"""FLOPs of each op equal those of torch.profiler."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from fastprof.analysis.flops import estimate_flops

pytestmark = pytest.mark.integrations

torch = pytest.importorskip("torch")


def image(*shape: int) -> Any:
    return torch.ones(*shape)


CASES: dict[str, Callable[[], Any]] = {
    "mm": lambda: torch.mm(image(3, 4), image(4, 5)),
    "addmm": lambda: torch.addmm(image(5), image(3, 4), image(4, 5)),
    "bmm": lambda: torch.bmm(image(2, 3, 4), image(2, 4, 5)),
    "baddbmm": lambda: torch.baddbmm(image(2, 3, 5), image(2, 3, 4), image(2, 4, 5)),
    "mul": lambda: image(3, 1) * image(1, 7),
    "mul scalar": lambda: image(3, 4) * 2.0,
    "add": lambda: image(1, 7) + image(3, 1),
    "sub": lambda: image(1, 7) - image(3, 1),
    "in place": lambda: image(3, 7).add_(1),
    "linear": lambda: torch.nn.functional.linear(image(3, 4), image(5, 4), image(5)),
    "matmul": lambda: image(2, 3, 4) @ image(4, 5),
    "conv2d": lambda: torch.nn.functional.conv2d(image(2, 4, 9, 9), image(6, 4, 3, 3)),
    "conv2d groups": lambda: torch.nn.functional.conv2d(
        image(2, 4, 9, 8), image(6, 2, 3, 2), image(6), stride=(2, 1), padding=(1, 0), groups=2
    ),
    "conv2d dilated": lambda: torch.nn.functional.conv2d(
        image(2, 4, 9, 9), image(6, 4, 3, 3), dilation=2
    ),
    "conv2d same": lambda: torch.nn.functional.conv2d(
        image(2, 4, 9, 9), image(6, 4, 3, 3), padding="same"
    ),
    "conv1d": lambda: torch.nn.functional.conv1d(image(2, 4, 9), image(6, 4, 3)),
}


@pytest.mark.parametrize("case", CASES)
def test_every_op_of_a_call_has_torchs_flops(case: str) -> None:
    activities = [torch.profiler.ProfilerActivity.CPU]
    with torch.profiler.profile(activities=activities, record_shapes=True, with_flops=True) as prof:
        CASES[case]()
    compared = 0
    for event in prof.events():
        estimate = estimate_flops(event.name, event.input_shapes, event.concrete_inputs)
        if estimate is None or estimate.extended:
            assert not event.flops, event.name
        else:
            assert estimate.flops == event.flops, event.name
            compared += 1
    counted = case not in ("sub", "in place", "conv1d", "conv2d same")
    assert (compared > 0) == counted
