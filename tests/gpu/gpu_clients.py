# SPDX-License-Identifier: Apache-2.0
"""Checks of fastprof beside other clients of CUPTI: torch.profiler, and one that does not subscribe."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

from gpu_traces import Result, ours, skip, steps, theirs
from gpu_workloads import Gpu
from raw_cupti import RawClient

__all__ = ["CLIENT_CHECKS"]

# Turns of fastprof, torch.profiler and a client without a subscription ("raw") in one process, in order.
# "a(b)": b's profile begins and ends inside of a's.
TURNS = {
    "torch_then_ours": ("torch", "ours", "raw", "torch", "ours"),
    "ours_then_torch": ("ours", "torch", "torch", "ours"),
    "ours_around_torch": ("ours(torch)", "torch", "ours"),
    "torch_around_ours": ("torch(ours)", "ours"),
}


def _raw(work: Callable[[], None]) -> dict[str, Any]:
    client = RawClient()
    client.begin()
    work()
    client.end()
    return {}


_PROFILERS = {"ours": ours, "torch": theirs, "raw": _raw}


def _in_turns(gpu: Gpu, turns: tuple[str, ...]) -> Result:
    """What each of them records is a fact; that the process crashes or hangs would be the fault."""
    if gpu.is_double:
        return skip("the double has no torch.profiler")
    warnings.simplefilter("ignore")
    work = steps(gpu, 5)
    facts: dict[str, Any] = {}
    for number, turn in enumerate(turns):
        outer, _, inner = turn.rstrip(")").partition("(")

        def both(inner: str = inner, number: int = number) -> None:
            work()
            facts[f"{number}: {inner} inside"] = _PROFILERS[inner](work)
            work()

        facts[f"{number}: {outer}"] = _PROFILERS[outer](both if inner else work)
    return {"faults": [], "facts": facts}


def other_client_inside(gpu: Gpu) -> Result:
    """A client that does not subscribe begins and ends inside of our profile: what we have, and what we say."""
    work = steps(gpu, 5)

    def both() -> None:
        work()
        _raw(work)
        work()

    found = ours(both)
    said = found["missing"] or found["dropped"]
    lost = found["kernels"] < 15 * gpu.kernels_of_step and not said
    return {
        "faults": ["kernels were lost without a word"] if lost else [],
        "facts": {"ours": found},
    }


CLIENT_CHECKS: dict[str, Callable[[Any], Result]] = {
    "other_client_inside": other_client_inside,
    **{name: partial(_in_turns, turns=turns) for name, turns in TURNS.items()},
}
