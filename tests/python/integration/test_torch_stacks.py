# SPDX-License-Identifier: Apache-2.0
"""Python stacks of torch's ops, compared with those of torch.profiler for the same work."""

from __future__ import annotations

import re
import threading
import weakref
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from known_torch import CPU, RELEASE, torch
from processes import resident_kilobytes
from torch_pieces import Cube, convolution, mlp

import fastprof
from fastprof.profiler import options as profile_options

pytestmark = pytest.mark.integrations


@pytest.fixture(autouse=True)
def one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    torch.set_num_threads(1)
    monkeypatch.setattr(profile_options, "_warned", set())


def custom_function() -> None:
    x = torch.ones(3, requires_grad=True)
    Cube.apply(x).sum().backward()


def ours(work: Callable[[], None]) -> Any:
    with fastprof.profile(with_stack=True, python_calls=False) as p:
        work()
    assert not p.missing
    return p


def theirs(work: Callable[[], None]) -> Any:
    verbose = torch._C._profiler._ExperimentalConfig(verbose=True)
    with torch.profiler.profile(activities=CPU, with_stack=True, experimental_config=verbose) as p:
        work()
    return p


# Entries of torch.profiler that are not frames. 2.8 shows the function that starts the profile as one, too.
NO_FRAME = ("<built-in", "nn.Module: ", *(("<function ",) if RELEASE < (2, 9) else ()))


def prefixes() -> list[str]:
    from torch.profiler.python_tracer import _prefix_regex

    return [*_prefix_regex()]


def functions(stack: list[str], trimmed: list[str]) -> tuple[str, ...]:
    """Return file and function of each Python frame.

    Lines are left out: torch.profiler shows where a function begins, fastprof the line that is run. So are
    built-in functions and calls of modules, which torch.profiler shows as the module.
    The order is from the op outwards to the profiled work.
    """
    found = []
    for entry in stack:
        match = re.fullmatch(r"(.*)\((\d+)\): (.*)", entry)
        if match is None:
            assert entry.startswith(NO_FRAME), entry
            continue
        file, name = match[1], match[3]
        if name in ("ours", "theirs"):
            break
        file = next((file[len(p) :] for p in trimmed if file.startswith(p)), file)
        if name != "_wrapped_call_impl":
            found.append(f"{file}: {name}")
    return tuple(found)


@pytest.mark.parametrize("work", [mlp, convolution, custom_function], ids=lambda f: f.__name__)
def test_frames_are_torch_profilers(work: Callable[[], None]) -> None:
    work()
    trimmed = prefixes()

    def facts(profile: Any) -> Counter[tuple[str, tuple[str, ...]]]:
        return Counter(
            (e.name, functions(e.stack or [], trimmed))
            for e in profile.events()
            if not getattr(e, "is_python_function", False) and not e.name.startswith("Profiler")
        )

    mine, other = facts(ours(work)), facts(theirs(work))
    assert mine == other


def test_lines_are_those_that_run() -> None:
    def work() -> None:
        a = torch.ones(2)
        a.add(1)
        a.mul(2)

    lines = {
        e.name: int(e.stack[0].split("(")[1].split(")")[0])
        for e in ours(work).events()
        if e.cpu_parent is None
    }
    first = work.__code__.co_firstlineno
    assert lines == {"aten::ones": first + 1, "aten::add": first + 2, "aten::mul": first + 3}


def test_a_backward_op_has_the_stack_of_its_forward_op() -> None:
    x = torch.ones(3, requires_grad=True)

    def forward() -> Any:
        return x.exp()

    def work() -> None:
        y = forward().sum()
        thread = threading.Thread(target=y.backward)
        thread.start()
        thread.join()

    events = ours(work).events()
    (backward,) = [e for e in events if e.name == "ExpBackward0"]
    (exp,) = [e for e in events if e.name == "aten::exp"]
    assert exp.stack[0].endswith("): forward")
    assert backward.stack == exp.stack
    (inside,) = backward.cpu_children
    assert inside.name == "aten::mul" and inside.stack == exp.stack


def test_threads_of_libtorch_have_no_python_stack() -> None:
    @torch.jit.script  # type: ignore[untyped-decorator]
    def two(x: torch.Tensor) -> torch.Tensor:
        return torch.cosh(x)

    @torch.jit.script  # type: ignore[untyped-decorator]
    def one(x: torch.Tensor) -> torch.Tensor:
        return torch.jit.wait(torch.jit.fork(two, x))

    x = torch.ones(3)
    one(x)
    p = ours(lambda: one(x))
    (forked,) = [e for e in p.events() if e.name == "aten::cosh"]
    if forked.thread != p_thread(p):  # a fork may run on the calling thread
        assert not forked.stack


def test_ops_that_hold_the_gil_and_ops_that_throw() -> None:
    def work() -> None:
        with torch.profiler.record_function("mine"):  # begun by a function that holds the GIL
            pass
        with pytest.raises(RuntimeError, match="size"):
            torch.ones(2) + torch.ones(3)
        torch.zeros(1)

    events = {e.name: e for e in ours(work).events()}
    first = work.__code__.co_firstlineno
    assert any(f"({first + 1}): work" in entry for entry in events["mine"].stack)
    assert events["aten::add"].stack[0].endswith(f"({first + 4}): work")
    assert events["aten::zeros"].stack[0].endswith(f"({first + 5}): work")


def test_code_is_let_go_after_the_profile() -> None:
    space: dict[str, Any] = {"torch": torch}
    exec("def made():\n    torch.ones(2)\n", space)
    code = weakref.ref(space["made"].__code__)
    p = fastprof.profile(with_stack=True, python_calls=False)
    p.start()
    space["made"]()
    del space["made"]
    assert code() is not None  # the profile keeps it alive
    p.stop()
    assert code() is None
    (ones,) = [e for e in p.events() if e.name == "aten::ones"]
    assert ones.stack[0] == "<string>(2): made"


def test_many_threads_and_sessions() -> None:
    """Threads without the GIL record known and new stacks, while sessions start and stop."""
    done = threading.Event()
    failed: list[BaseException] = []

    def deep(depth: int) -> None:
        if depth:
            deep(depth - 1)
        else:
            torch.ones(1)

    def run() -> None:
        try:
            step = 0
            while not done.is_set():
                deep(step % 40)
                step += 1
        except BaseException as failure:
            failed.append(failure)

    threads = [threading.Thread(target=run) for _ in range(3)]
    for thread in threads:
        thread.start()
    try:
        for _ in range(40):
            with fastprof.profile(with_stack=True, python_calls=False) as p:
                deep(3)
            stacks = p.event_table.coded["stack"]
            innermost = {stacks.values[code][0] for code in set(stacks.codes.tolist()) if code >= 0}
            assert innermost and all("): deep" in entry for entry in innermost)
            # An op that began during the start of the profile has no stack: at most one per thread.
            assert (np.asarray(stacks.codes) < 0).sum() <= len(threads)
    finally:
        done.set()
        for thread in threads:
            thread.join()
    assert not failed


def p_thread(profile: Any) -> int:
    """Return the thread number of this thread in a profile's events."""
    table = profile.event_table
    native = threading.get_native_id()
    (index,) = {
        int(table.thread[row]) for row in range(len(table))
        if table.tracks[int(table.column("track")[row])].tid == native
    }  # fmt: skip
    return index


def test_a_stack_costs_no_memory_after_its_profile() -> None:
    def profiles(count: int) -> None:
        for _ in range(count):
            with fastprof.profile(with_stack=True, python_calls=False):
                torch.ones(2).add(1)

    profiles(100)
    before = resident_kilobytes()
    profiles(400)
    assert resident_kilobytes() - before < 2048
