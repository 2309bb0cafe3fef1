# SPDX-License-Identifier: Apache-2.0
"""with_modules=True without calls: compiled modules, schedules, threads, Ctrl-C, torch.profiler, child processes."""

from __future__ import annotations

import signal
import textwrap
import threading
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from known_torch import needs_inputs, torch
from processes import python

import fastprof

pytestmark = [pytest.mark.integrations, needs_inputs]


class Net(torch.nn.Module):  # type: ignore[misc]
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = torch.nn.Linear(4, 4), torch.nn.Linear(4, 2)

    def forward(self, x: Any) -> Any:
        return self.second(torch.relu(self.first(x)))


def called(profile: Any) -> Counter[str]:
    """Count the calls of each module, by its class."""
    names = [profile.event_table.name(row) for row in range(len(profile.event_table))]
    modules = (name.removeprefix("nn.Module: ") for name in names if name.startswith("nn.Module: "))
    return Counter(name.rpartition("_")[0] for name in modules)


def times(n: int) -> dict[str, int]:
    return {"Net": n, "Linear": 2 * n}


def test_compiled_modules_are_those_that_are_called() -> None:
    net, x = Net(), torch.ones(2, 4)
    compiled = torch.compile(net, backend="eager")
    with fastprof.profile(with_modules=True) as profile:
        compiled(x)
        compiled(x)
        net(x)
    # Dynamo inlines the layers into the code that it makes, and calls no module for them.
    assert called(profile) == {"OptimizedModule": 2, "Net": 3, "Linear": 2}
    assert not profile.missing


def test_a_schedule() -> None:
    net, x = Net(), torch.ones(2, 4)
    found: list[Counter[str]] = []
    with fastprof.profile(
        with_modules=True,
        schedule=fastprof.schedule(wait=1, warmup=1, active=2, repeat=2),
        on_trace_ready=lambda p: found.append(called(p)),
    ) as profile:
        for _ in range(10):
            net(x)
            profile.step()
    assert found == [times(2), times(2)]


def test_threads_and_profiles_that_overlap() -> None:
    net, x = Net(), torch.ones(2, 4)

    def work() -> None:
        for _ in range(5):
            net(x)

    def on_a_thread(target: Any) -> None:
        thread = threading.Thread(target=target)
        thread.start()
        thread.join()

    go = threading.Event()
    other = threading.Thread(target=lambda: go.wait(60) and work())
    other.start()
    first, second = fastprof.profile(with_modules=True), fastprof.profile(with_modules=True)
    first.start()
    work()
    with fastprof.profile(with_modules=True, all_threads=False) as own:
        second.start()
        go.set()
        other.join()  # not started by this thread while `own` ran
        on_a_thread(work)
    first.stop()
    on_a_thread(work)
    second.stop()
    assert called(first) == times(15)
    assert called(own) == times(5)
    assert called(second) == times(15)


def test_an_interrupt_inside_modules(request: pytest.FixtureRequest) -> None:
    # A shell that starts tests in the background has SIGINT ignored.
    former = signal.signal(signal.SIGINT, signal.default_int_handler)
    request.addfinalizer(lambda: signal.signal(signal.SIGINT, former))

    class Interrupted(torch.nn.Module):  # type: ignore[misc]
        def forward(self, x: Any) -> Any:
            signal.raise_signal(signal.SIGINT)
            return x

    with pytest.raises(KeyboardInterrupt):
        with fastprof.profile(with_modules=True) as profile:
            torch.nn.Sequential(Net(), Interrupted(), Net())(torch.ones(2, 4))
    assert called(profile) == {"Sequential": 1, "Interrupted": 1, **times(1)}
    assert profile.event_table.unfinished == 0
    with fastprof.profile(with_modules=True) as profile:
        Net()(torch.ones(2, 4))
    assert called(profile) == times(1)


def test_torchs_own_profiler_outside_and_inside() -> None:
    net, x = Net(), torch.ones(2, 4)
    theirs = torch.profiler.profile(with_stack=True)
    with theirs, fastprof.profile(with_modules=True) as inside:
        net(x)
    with fastprof.profile(with_modules=True) as outside:
        with torch.profiler.profile(with_stack=True):
            net(x)
    assert called(inside) == called(outside) == times(1)


FOLLOWED = """
    import multiprocessing, os, signal
    import fastprof, torch

    def work(n, kill=False):
        net = torch.nn.Sequential(torch.nn.Linear(4, 2))
        for _ in range(n):
            net(torch.ones(2, 4))
        if kill:
            os.kill(os.getpid(), signal.SIGKILL)

    with fastprof.profile(with_modules=True, follow_children=True) as prof:
        context = multiprocessing.get_context("fork")
        for arguments in ((5,), (7, True)):
            child = context.Process(target=work, args=arguments)
            child.start()
            child.join()
        work(2)
    print([prof.event_table.name(row) for row in range(len(prof.event_table))].count("nn.Module: Linear_0"))
"""


def test_followed_children_one_of_which_is_killed(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(textwrap.dedent(FOLLOWED))
    done = python(script)
    assert done.stdout == "14\n", done.stderr
