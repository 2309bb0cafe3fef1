# SPDX-License-Identifier: Apache-2.0
"""Measure the cost of tracing every call, next to hooks that do nothing, cProfile, viztracer and torch.profiler.

``python_calls.py [--rounds N] [--json FILE] [--no-peers]``: per program (fib, classes and generators,
functions written in C, and a training step if torch is installed) the ns a call with each tool, the
tools run in turn; the ratio to the hooks that do nothing; and for fastprof what stop() costs a call,
what the table by function costs, and the bytes held a call.

A tool counts the calls that CPython reports: beginnings, also of a generator that goes on.
"""

from __future__ import annotations

import argparse
import cProfile
import importlib.util
import json
import os
import statistics
import subprocess
import sys
import sysconfig
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import fastprof

HERE = Path(__file__).resolve().parent


# ---- programs ------------------------------------------------------------------------------------


def fib(n: int) -> int:
    return n if n < 2 else fib(n - 1) + fib(n - 2)


class Shape:
    def __init__(self, side: float) -> None:
        self.side = side

    @property
    def area(self) -> float:
        return self.side * self.side

    def scaled(self, by: float) -> Shape:
        return Shape(self.side * by)


def areas(count: int) -> Iterator[float]:
    for i in range(count):
        yield Shape(i).scaled(2.0).area


def classes() -> None:
    for _ in range(40):
        sorted(areas(60), key=lambda area: -area)
        sum(max(one, 3.0) for one in areas(60))


def c_functions() -> None:
    found: list[int] = []
    add = found.append
    for i in range(6000):
        add(len(found))
        isinstance(i, int)


def training_step() -> Callable[[], None]:
    import torch

    torch.set_num_threads(1)
    model = torch.nn.Sequential(
        *(torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU()) for _ in range(6))
    )
    optimizer = torch.optim.Adam(model.parameters())
    inputs = torch.randn(32, 64)

    def step() -> None:
        optimizer.zero_grad()
        model(inputs).sum().backward()
        optimizer.step()

    def steps() -> None:
        for _ in range(10):
            step()

    steps()
    return steps


# ---- tools ---------------------------------------------------------------------------------------


def empty_hooks() -> Any:
    """Compile and import the module of hooks that do nothing."""
    folder = tempfile.mkdtemp()
    path = Path(folder) / f"empty_call_hooks{sysconfig.get_config_var('EXT_SUFFIX')}"
    include = f"-I{sysconfig.get_path('include')}"
    subprocess.run(
        [os.environ.get("CXX", "g++"), "-std=c++17", "-O2", "-shared", "-fPIC", include,
         HERE / "empty_call_hooks.cpp", "-o", path],
        check=True,
    )  # fmt: skip
    spec = importlib.util.spec_from_file_location("empty_call_hooks", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class Tool:
    """Times a program under a tool; created anew for each measurement."""

    def __init__(self, begin: Callable[[], Any], end: Callable[[], Any]) -> None:
        self.begin = begin
        self.end = end

    def run(self, program: Callable[[], Any]) -> float:
        """Return the time of the program in ns."""
        self.begin()
        start = time.thread_time_ns()  # excludes time in which other threads had the CPU
        program()
        took = time.thread_time_ns() - start
        self.end()
        return took


def tools(peers: bool) -> dict[str, Callable[[], Tool]]:
    """Return makers of the tools that are installed."""
    hooks = empty_hooks()

    def of_fastprof(**options: Any) -> Tool:
        profile = fastprof.profile(max_bytes=1 << 30, **options)
        return Tool(profile.start, profile.stop)

    def of_cprofile() -> Tool:
        profile = cProfile.Profile()
        return Tool(profile.enable, profile.disable)

    found: dict[str, Callable[[], Tool]] = {
        "nothing": lambda: Tool(lambda: None, lambda: None),
        "empty hooks": lambda: Tool(hooks.begin, hooks.end),
        "hooks that read the clock": lambda: Tool(hooks.begin_clock, hooks.end),
        "fastprof": lambda: of_fastprof(python_calls=True),
        "fastprof, with_stack": lambda: of_fastprof(with_stack=True),
    }
    if not peers:
        return found
    found["cProfile"] = of_cprofile
    if importlib.util.find_spec("viztracer") is not None:
        import viztracer

        def of_viztracer() -> Tool:
            tracer = viztracer.VizTracer(verbose=0, tracer_entries=1_000_000)
            return Tool(tracer.start, lambda: (tracer.stop(), tracer.clear()))

        found["viztracer"] = of_viztracer
    if importlib.util.find_spec("torch") is not None:
        import torch

        def of_torch() -> Tool:
            profile = torch.profiler.profile(with_stack=True)
            return Tool(profile.start, profile.stop)

        found["torch.profiler, with_stack"] = of_torch
    return found


def after_the_run(program: Callable[[], Any]) -> dict[str, float]:
    """Return the ns a call of stop() and of the table by function, the calls, and the bytes a call."""
    with fastprof.profile(python_calls=True) as profile:
        program()
    profile.python_calls().table()  # imports the modules that the second one uses
    profile = fastprof.profile(python_calls=True, max_bytes=1 << 30)
    profile.start()
    program()
    start = time.thread_time_ns()
    profile.stop()
    table = profile.event_table
    stopped = time.thread_time_ns()
    text = profile.python_calls().table()
    shown = time.thread_time_ns()
    calls = int(table.column("is_python_function").sum())
    assert text and not table.dropped, table.dropped
    return {
        "calls": calls,
        "stop_ns": (stopped - start) / calls,
        "table_ns": (shown - stopped) / calls,
        "held_bytes": table.nbytes / calls,
    }


def main() -> None:
    """Run the measurements and print them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=11)
    parser.add_argument("--json")
    parser.add_argument("--no-peers", action="store_true", help="fastprof and empty hooks only")
    options = parser.parse_args()
    programs: dict[str, Callable[[], Any]] = {
        "fib": lambda: fib(20),
        "classes": classes,
        "C functions": c_functions,
    }
    if importlib.util.find_spec("torch") is not None:
        programs["training step"] = training_step()
    made = tools(not options.no_peers)
    rows = []
    for program_name, program in programs.items():
        facts = after_the_run(program)
        times: dict[str, list[float]] = {name: [] for name in made}
        for _ in range(options.rounds):
            for name, maker in made.items():
                times[name].append(maker().run(program) / facts["calls"])
        print(
            f"{program_name}: {facts['calls']} calls; stop {facts['stop_ns']:.0f} ns a call, table "
            f"{facts['table_ns']:.0f} ns, {facts['held_bytes']:.0f} bytes held"
        )
        for name, ns in times.items():
            pairs = list(zip(ns, times["nothing"], times["empty hooks"], strict=True))
            ratios = [a / hooks for a, _, hooks in pairs]
            row = {
                "suite": "python_calls", "case": f"{program_name}, {name}", "min_ns": min(ns),
                "median_ns": statistics.median(ns), "ratio_to_empty_hooks": statistics.median(ratios),
                "ratio_to_nothing": statistics.median(a / bare for a, bare, _ in pairs),
                "python": sys.version.split()[0], "rounds": options.rounds,
                **(facts if name == "fastprof" else {}),
            }  # fmt: skip
            rows.append(row)
            print(
                f"  {name:28} {row['median_ns']:8.1f} ns a call  {row['ratio_to_nothing']:6.2f} x nothing"
                f"  {row['ratio_to_empty_hooks']:6.2f} x empty hooks"
            )
    if options.json:
        Path(options.json).write_text("".join(json.dumps(row) + "\n" for row in rows))


if __name__ == "__main__":
    main()
