# SPDX-License-Identifier: Apache-2.0
"""Profiles of one thread and of libtorch's threads that work for it, compared with torch.profiler's."""

from __future__ import annotations

import threading
import warnings
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from known_torch import CPU, CXX11_ABI, torch
from processes import run_python
from unfollowed import run_unfollowed
from waiting_threads import until_other_threads_sleep

import fastprof

pytestmark = pytest.mark.integrations

with warnings.catch_warnings():
    warnings.simplefilter("ignore")

    @torch.jit.script  # type: ignore[untyped-decorator]
    def task(x: torch.Tensor) -> torch.Tensor:
        return torch.cosh(x) + torch.sinh(x)

    @torch.jit.script  # type: ignore[untyped-decorator]
    def forks(x: torch.Tensor) -> torch.Tensor:
        a = torch.jit.fork(task, x)
        b = torch.jit.fork(task, x * 2)
        return torch.jit.wait(a) + torch.jit.wait(b)


class Reenter(torch.autograd.Function):  # type: ignore[misc]
    """Backward inside backward, so deep that libtorch continues on another thread."""

    @staticmethod
    def forward(ctx: Any, x: Any, depth: int) -> Any:
        ctx.depth = depth
        return x.detach()

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        if ctx.depth:
            with torch.enable_grad():
                y = torch.ones(1, requires_grad=True)
                Reenter.apply(y, ctx.depth - 1).sum().backward()
        return grads[0], None


# torch.profiler writes ends after its stop into freed memory: this work crashes under it. Python's objects are
# allocated on malloc's heap, so that such a write would damage one.
BRANCHES_END_AFTER_PROFILES = """
import gc
import warnings
import torch
import torch_pieces
import fastprof

torch.set_num_threads(1)
with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # TorchScript is deprecated
    overtaken = torch.jit.script(torch_pieces.overtaken)
gc.set_threshold(2000, 5, 5)
x = torch.ones(4)
begun = 0
for round in range(20):
    for options in ({}, {"record_shapes": CXX11_ABI}, {"profile_memory": True}, {"with_stack": True}):
        with fastprof.profile(**options) as p:
            overtaken(x)
        names = [event.name for event in p.events()]
        assert names.count("aten::tanh") == names.count("aten::cosh") == 1, names
        begun += len(names)
    lists = [[k] for k in range(2000)]
    gc.collect()
print("all there" if begun >= 20 * 4 * 5 else begun)
"""


def test_branches_that_end_after_the_profile() -> None:
    code = BRANCHES_END_AFTER_PROFILES.replace("CXX11_ABI", str(CXX11_ABI))
    said = run_python(code, PYTHONMALLOC="malloc")
    assert said.splitlines()[-1] == "all there"


def forking() -> None:
    forks(torch.ones(1000))


def deep_backward() -> None:
    x = torch.ones(1, requires_grad=True)
    Reenter.apply(x, 70).sum().backward()


def with_other_threads() -> None:
    run_unfollowed(lambda: forks(torch.ones(3)))
    forking()


@pytest.fixture(autouse=True)
def one_thread() -> None:
    torch.set_num_threads(1)
    for work in (forking, deep_backward):
        for _ in range(3):  # TorchScript compiles
            work()


def names(profile: Any) -> Counter[tuple[str, int]]:
    return Counter((e.name, e.scope) for e in profile.events())


def ours(work: Callable[[], None], **arguments: Any) -> Any:
    with fastprof.profile(all_threads=False, **arguments) as p:
        work()
    assert not p.missing
    return p


def theirs(work: Callable[[], None]) -> Any:
    with torch.profiler.profile(activities=CPU) as p:
        work()
        # The thread that waits for a fork continues before the forked function has ended, and torch.profiler
        # has no event for a function that ends after its stop.
        until_other_threads_sleep()
    return p


@pytest.mark.parametrize(
    "work", [forking, deep_backward, with_other_threads], ids=lambda f: f.__name__
)
def test_one_threads_work_is_followed_as_by_torch_profiler(work: Callable[[], None]) -> None:
    assert names(ours(work)) == names(theirs(work))


def test_work_was_on_other_threads() -> None:
    for work, marked in ((forking, "aten::cosh"), (deep_backward, "ReenterBackward")):
        threads = {e.thread for e in ours(work).events()}
        marks = {e.thread for e in ours(work).events() if e.name.endswith(marked)}
        assert len(threads) > 1 and marks, work


def test_a_thread_of_libtorch_is_left_again() -> None:
    """Threads of the pool that worked for the profiled thread then work for other threads, unrecorded."""
    forked = threading.Event()
    p = fastprof.profile(all_threads=False)

    def of_another() -> None:
        for _ in range(20):
            forks(torch.full((2,), 7.0))
        forked.set()

    p.start()
    for _ in range(20):
        forking()
    run_unfollowed(of_another)
    for _ in range(20):
        forking()
    p.stop()
    assert forked.is_set()
    assert sum(e.name == "aten::cosh" for e in p.events()) == 80
    assert not any(e.name == "aten::full" for e in p.events())


def test_torch_imported_later_and_a_forked_child() -> None:
    code = """
        import fastprof
        with fastprof.profile(all_threads=False) as p:
            import os, torch
            x = torch.ones(1, requires_grad=True)

            class Deep(torch.autograd.Function):
                @staticmethod
                def forward(ctx, x, depth):
                    ctx.depth = depth
                    return x.detach()
                @staticmethod
                def backward(ctx, g):
                    if ctx.depth:
                        with torch.enable_grad():
                            y = torch.ones(1, requires_grad=True)
                            Deep.apply(y, ctx.depth - 1).sum().backward()
                    return g, None

            child = os.fork()
            if child == 0:
                with fastprof.profile(all_threads=False) as q:
                    torch.ones(3)
                os._exit(0 if [e.name for e in q.events()].count("aten::ones") == 1 else 7)
            status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
            Deep.apply(x, 70).sum().backward()
        print(status, sum(e.name == "DeepBackward" for e in p.events()), p.missing)
    """
    assert run_python(code) == "0 71 {}\n"
