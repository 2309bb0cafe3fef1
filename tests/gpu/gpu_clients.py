# SPDX-License-Identifier: Apache-2.0
"""Checks of fastprof beside other clients of CUPTI: torch.profiler, and one that does not subscribe."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Callable
from typing import Any

from gpu_traces import Result, ours, skip, steps, theirs
from gpu_workloads import Gpu
from raw_cupti import RawClient, nested_calls

__all__ = ["CLIENT_CHECKS"]


def torch_then_ours(gpu: Gpu) -> Result:
    """torch.profiler, then fastprof, then the activity API without a subscription, then torch.profiler again."""
    if gpu.is_double:
        return skip("the double has no torch.profiler")
    warnings.simplefilter("ignore")
    work = steps(gpu, 5)
    facts: dict[str, Any] = {"torch": theirs(work)}
    client = RawClient()
    facts["holder"] = client.holder()
    facts["ours"] = ours(work)
    client.begin(("runtime", "concurrent_kernel"))
    work()
    client.flush()
    client.disable(("runtime", "concurrent_kernel"))
    facts["raw_without_subscription"] = {
        **nested_calls(client, client.rows()), "answers": client.answers, "foreign": client.foreign_buffers,
    }  # fmt: skip
    facts["torch_again"] = theirs(work)
    facts["ours_again"] = ours(work)
    return {"faults": [], "facts": facts}


def ours_then_torch(gpu: Gpu) -> Result:
    """fastprof, then torch.profiler twice, then fastprof."""
    if gpu.is_double:
        return skip("the double has no torch.profiler")
    warnings.simplefilter("ignore")
    work = steps(gpu, 5)
    facts = {
        "ours": ours(work),
        "torch": theirs(work),
        "torch_again": theirs(work),
        "ours_again": ours(work),
    }
    return {"faults": [], "facts": facts}


def ours_around_torch(gpu: Gpu) -> Result:
    """torch.profiler inside of a fastprof profile, then torch.profiler alone, then fastprof alone."""
    if gpu.is_double:
        return skip("the double has no torch.profiler")
    warnings.simplefilter("ignore")
    work = steps(gpu, 5)
    inner: dict[str, Any] = {}

    def both() -> None:
        work()
        inner.update(theirs(work))
        work()

    facts = {
        "ours": ours(both),
        "torch_inside": inner,
        "torch_after": theirs(work),
        "ours_after": ours(work),
    }
    return {"faults": [], "facts": facts}


def torch_around_ours(gpu: Gpu) -> Result:
    """fastprof inside of torch.profiler, then both alone."""
    if gpu.is_double:
        return skip("the double has no torch.profiler")
    warnings.simplefilter("ignore")
    work = steps(gpu, 5)
    inner: dict[str, Any] = {}

    def both() -> None:
        work()
        inner.update(ours(work))
        work()

    return {
        "faults": [],
        "facts": {"torch": theirs(both), "ours_inside": inner, "ours_after": ours(work)},
    }


def other_client_inside(gpu: Gpu) -> Result:
    """A client that does not subscribe begins and ends inside of our profile: what we have, and what we say."""
    work = steps(gpu, 5)
    client = RawClient()

    def both() -> None:
        work()
        client.begin(("runtime", "concurrent_kernel"))
        work()
        client.flush()
        client.disable(("runtime", "concurrent_kernel"))
        work()

    found = ours(both)
    facts = {"ours": found, "raw": dict(Counter(row.kind for row in client.rows())),
             "foreign_buffers": client.foreign_buffers}  # fmt: skip
    said = found["missing"] or found["dropped"]
    lost = found["kernels"] < 15 * gpu.kernels_of_step and not said
    return {"faults": ["kernels were lost without a word"] if lost else [], "facts": facts}


CLIENT_CHECKS: dict[str, Callable[[Any], Result]] = {
    check.__name__: check
    for check in (
        torch_then_ours,
        ours_then_torch,
        ours_around_torch,
        torch_around_ours,
        other_client_inside,
    )
}
