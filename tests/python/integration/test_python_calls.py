# SPDX-License-Identifier: Apache-2.0
"""Traced calls beside cProfile's, on programs with recursion, generators, exceptions, C calls, threads."""

from __future__ import annotations

import contextlib
import cProfile
import json
import pstats
import re
import sys
import threading
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from processes import python, run_python

import fastprof

# ---- programs ------------------------------------------------------------------------------------


def fib(n: int) -> int:
    return n if n < 2 else fib(n - 1) + fib(n - 2)


def even(n: int) -> bool:
    return n == 0 or odd(n - 1)


def odd(n: int) -> bool:
    return n != 0 and even(n - 1)


def numbers(n: int) -> Iterator[int]:
    for i in range(n):
        yield i + 1


def generators() -> None:
    sum(numbers(5))
    unfinished = numbers(5)
    next(unfinished)
    unfinished.close()
    thrown = numbers(3)
    next(thrown)
    with contextlib.suppress(KeyError):
        thrown.throw(KeyError("x"))
    list(map(fib, numbers(4)))


def failing(depth: int) -> None:
    if depth == 0:
        raise ValueError
    failing(depth - 1)


def exceptions() -> None:
    for _ in range(3):
        with contextlib.suppress(ValueError):
            failing(4)
        with contextlib.suppress(ValueError):
            int("x")


def c_calls() -> None:
    values = sorted([3, 1, 2], key=lambda v: -v)
    values.append(len(values))
    {}.get(1)
    ",".join(str(v) for v in values)
    [fib(2) for _ in range(2)]
    isinstance(values, list)


class Counted:
    def __init__(self) -> None:
        self.n = 0

    def __enter__(self) -> Counted:
        return self

    def __exit__(self, *args: object) -> None:
        self.n += 1

    @property
    def twice(self) -> int:
        return 2 * self.n

    @classmethod
    def make(cls) -> Counted:
        return cls()


def classes() -> None:
    with Counted.make() as counted:
        assert counted.twice == 0
    exec("def made(): return 1\nmade()", {})


PROGRAMS: list[Callable[[], Any]] = [
    lambda: fib(9), lambda: even(8), generators, exceptions, c_calls, classes
]  # fmt: skip


def by_cprofile(program: Callable[[], Any]) -> Any:
    profiler = cProfile.Profile()
    profiler.enable()
    program()
    profiler.disable()
    return pstats.Stats(profiler).stats  # type: ignore[attr-defined]


def counts(stats: Any) -> dict[Any, Any]:
    """(calls, primitive calls) and those by caller, without the profilers' own functions."""
    own = {key for key in stats if "_lsprof" in key[2] or "fastprof" in key[2] + key[0]}
    return {
        key: (value[:2], {c: v[:2] for c, v in value[4].items() if c not in own})
        for key, value in stats.items()
        if key not in own
    }


@pytest.mark.parametrize("number", range(len(PROGRAMS)))
def test_counts_are_those_of_cprofile(number: int) -> None:
    program = PROGRAMS[number]
    program()
    with fastprof.profile(python_calls=True) as prof:
        program()
    stats = prof.python_calls().to_pstats().stats
    assert counts(stats) == counts(by_cprofile(program))
    if number < 2:  # recursion: each call is an event
        averages = prof.key_averages(include_python_functions=True)
        found = {row.key.partition(": ")[2]: row.count for row in averages}
        names = {"fib"} if number == 0 else {"even", "odd"}
        assert {name: found[name] for name in names} == {
            key[2]: value[1] for key, value in stats.items() if key[2] in names
        }


def test_counts_of_threads_are_those_of_cprofile() -> None:
    profilers: list[cProfile.Profile] = []

    def profiled(program: Callable[[], Any]) -> None:
        profilers.append(cProfile.Profile())
        profilers[-1].enable()
        program()
        profilers[-1].disable()

    for program in PROGRAMS:  # one at a time: cProfile is one tool of sys.monitoring
        thread = threading.Thread(target=profiled, args=(program,))
        thread.start()
        thread.join()
    threads = [threading.Thread(target=program) for program in PROGRAMS]
    with fastprof.profile(python_calls=True) as prof:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def of_this_file(stats: Any) -> dict[Any, Any]:
        return {
            key: (numbers, {c: n for c, n in callers.items() if c[0] == __file__})
            for key, (numbers, callers) in counts(stats).items()
            if key[0] == __file__ and key[2] != "profiled"
        }

    expected = of_this_file(pstats.Stats(*profilers).stats)  # type: ignore[attr-defined]
    assert {"fib", "failing", "even", "numbers"} <= {key[2] for key in expected}
    found = of_this_file(prof.python_calls().to_pstats().stats)
    for _, callers in expected.values():
        for caller in [c for c in callers if c[2] == "profiled"]:
            del callers[caller]
    assert found == expected


# ---- the tree ------------------------------------------------------------------------------------


def reference_tree(program: Callable[[], Any]) -> list[tuple[int, str]]:
    """(depth, name) of each call, by a profile function written in Python."""
    calls: list[tuple[int, str]] = []
    depth = 0

    def hook(frame: Any, event: str, argument: Any) -> None:
        nonlocal depth
        if event == "call":
            code = frame.f_code
            calls.append((depth, f"{code.co_filename}({code.co_firstlineno}): {code.co_name}"))
            depth += 1
        elif event == "c_call":
            if argument is not sys.setprofile:
                calls.append((depth, argument.__name__))
            depth += 1
        else:
            depth -= 1

    sys.setprofile(hook)
    try:
        program()
    finally:
        sys.setprofile(None)
    return calls


def traced_tree(prof: fastprof.profile) -> list[tuple[int, str]]:
    table = prof.event_table
    parent, names = table.column("parent").tolist(), table.sites.names
    depth: list[int] = []
    tree = []
    enclosing = (table.column("flags") & 16) != 0
    for row, site in enumerate(table.column("site").tolist()):
        up = parent[row]
        depth.append(-1 if enclosing[row] else depth[up] + 1 if up >= 0 else 0)
        if not enclosing[row]:
            name = names[site]
            if name.startswith("<built-in "):
                name = name.split()[2].rstrip(">")
            tree.append((depth[row], name))
    return tree


@pytest.mark.parametrize("number", range(len(PROGRAMS)))
def test_tree_is_that_of_a_reference_tracer(number: int) -> None:
    program = PROGRAMS[number]
    program()
    with fastprof.profile(python_calls=True) as prof:
        program()
    assert traced_tree(prof) == reference_tree(program)


def test_ranges_and_calls_nest_in_each_other() -> None:
    def inner() -> None:
        with fastprof.record_function("inside"):
            fib(1)

    with fastprof.profile(python_calls=True) as prof:
        with fastprof.record_function("around"):
            inner()
    chain = []
    event: Any = next(e for e in prof.events() if e.name.endswith(": fib"))
    while event is not None and not event.name.endswith("nest_in_each_other"):
        chain.append(event.name.rsplit(": ")[-1])
        event = event.cpu_parent
    assert chain == ["fib", "inside", "inner", "around"]


def test_frames_on_the_stack_at_the_start_enclose_and_are_marked(tmp_path: Path) -> None:
    with fastprof.profile(python_calls=True) as prof:
        fib(1)
    (call,) = [e for e in prof.events() if e.name.endswith(": fib")]
    assert call.cpu_parent.name.endswith("start_enclose_and_are_marked")
    trace = tmp_path / "trace.json"
    prof.export_chrome_trace(trace)
    events = json.loads(trace.read_text())["traceEvents"]
    calls = [(e["name"], e["args"]) for e in events if e.get("cat") == "python_function"]
    own = next(a for name, a in calls if name.endswith(": fib"))
    around = next(a for name, a in calls if name.endswith("start_enclose_and_are_marked"))
    assert around["enclosing"] is True and "enclosing" not in own
    assert own["Python parent id"] == around["Python id"]
    outermost = min((a for _, a in calls), key=lambda a: int(a["Python id"]))
    assert outermost["Python parent id"] is None


def test_a_range_that_outlives_a_call_makes_no_calls(tmp_path: Path) -> None:
    # The range takes the place of `opens` in the parents of the table: it ends later.
    work = fastprof.record_function("work")

    def opens() -> None:
        work.__enter__()
        fib(1)

    def caller() -> None:
        opens()
        work.__exit__(None, None, None)

    with fastprof.profile(python_calls=True) as prof:
        caller()
    (fib_key,) = [key for key in prof.python_calls().to_pstats().stats if key[2] == "fib"]
    callers = prof.python_calls().to_pstats().stats[fib_key][4]
    assert [key[2] for key in callers] == ["opens"]
    trace = tmp_path / "trace.json"
    prof.export_chrome_trace(trace)
    events = json.loads(trace.read_text())["traceEvents"]
    args = {e["name"].rsplit(": ")[-1]: e["args"] for e in events if "args" in e}
    assert args["fib"]["Python parent id"] == args["opens"]["Python id"]
    assert args["opens"]["Python parent id"] == args["caller"]["Python id"]


def test_with_stack_traces_calls_unless_told_otherwise() -> None:
    def calls(**options: Any) -> int:
        with fastprof.profile(with_stack=True, **options) as prof, fastprof.record_function("r"):
            fib(3)
        (stacked,) = [e for e in prof.events() if e.name == "r"]
        assert stacked.stack
        assert [row.key for row in prof.key_averages()] == ["r"]
        return sum(e.name.endswith(": fib") for e in prof.events())

    assert calls() == calls(python_calls=True) == 5
    assert calls(python_calls=False) == 0
    assert calls(activities=[{fastprof.ProfilerActivity.CPU: ["user_annotation"]}]) == 0
    only_fib = fastprof.CallFilter(files=[__file__], c_calls=False)
    assert calls(python_calls=only_fib) == 5


def test_a_run_shows_the_calls_of_the_program_only(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(
        "import json\ndef work():\n    return json.dumps([1, {'a': 2}])\nwork()\n"
    )
    run = ("-m", "fastprof", "run", "--calls", "-o", "calls.pstats")
    python(*run, "program.py", cwd=tmp_path, check=True)
    functions = {key[2]: key[0] for key in pstats.Stats(str(tmp_path / "calls.pstats")).stats}  # type: ignore[attr-defined]
    assert "work" in functions and "dumps" in functions
    assert not any("contextlib" in file or "signal" in file for file in functions.values())
    assert not any("fastprof" in name for name in functions)
    python(*run, "-m", "json.tool", "--help", cwd=tmp_path, check=True)


def test_the_first_profile_has_no_calls_of_fastprofs_imports() -> None:
    printed = run_python("""
        import fastprof
        with fastprof.profile(python_calls=True) as prof, fastprof.record_function("r"):
            pass
        print(*(event.name for event in prof.events()), sep="|")
    """)
    assert re.fullmatch(r"[^|]*: <module>\|r\n", printed)


# ---- threads -------------------------------------------------------------------------------------


def test_threads_from_before_and_after_the_start() -> None:
    go, done = threading.Event(), threading.Event()

    def waiting() -> None:
        go.wait()
        fib(3)
        done.set()

    early = threading.Thread(target=waiting, name="early")
    early.start()
    with fastprof.profile(python_calls=True) as prof:
        go.set()
        done.wait()
        early.join()
        late = threading.Thread(target=fib, args=(3,), name="late")
        late.start()
        late.join()
        with ThreadPoolExecutor(2, thread_name_prefix="pool") as pool:
            list(pool.map(fib, [3] * 8))
    table = prof.event_table
    fibs = [table.tracks[t].name for t, s in zip(table.column("track"), table.column("site"), strict=True)
            if table.sites.names[int(s)].endswith(": fib")]  # fmt: skip
    calls = Counter(name.split("_")[0] for name in fibs)
    assert calls == {"early": 5, "late": 5, "pool": 40}


# ---- filters -------------------------------------------------------------------------------------


def names_with(chosen: fastprof.CallFilter) -> set[str]:
    with fastprof.profile(python_calls=chosen) as prof:
        json.loads("[1, 2]")
        c_calls()
    return {f.function for f in prof.python_calls().functions}


def test_filters_by_file_module_depth_and_kind() -> None:
    everything = names_with(fastprof.CallFilter())
    assert {"loads", "c_calls", "fib", "<built-in method builtins.len>"} <= everything
    here = names_with(fastprof.CallFilter(files=[__file__], c_calls=False))  # type: ignore[arg-type]
    inlined = set() if sys.version_info < (3, 12) else {"<listcomp>"}  # since PEP 709
    assert here == {"c_calls", "fib", "<lambda>", "<listcomp>", "<genexpr>"} - inlined
    assert "loads" not in names_with(fastprof.CallFilter(exclude_files=(json.__path__[0],)))
    assert "fib" not in names_with(fastprof.CallFilter(modules=("json",), c_calls=False))
    assert "loads" in names_with(fastprof.CallFilter(modules=("json",), c_calls=False))
    assert {"decode", "loads"}.isdisjoint(
        names_with(fastprof.CallFilter(exclude_modules=("json",)))
    )


# ---- nested profiles, other profilers ------------------------------------------------------------


@pytest.mark.skipif(sys.version_info >= (3, 12), reason="there is a place for each profiler")
def test_another_profiler_keeps_its_place_and_is_named() -> None:
    profiler = cProfile.Profile()
    profiler.enable()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # once a process
            with fastprof.profile(python_calls=True) as prof:
                fib(3)
    finally:
        profiler.disable()
    assert "Profile on thread" in prof.missing["python_calls"]
    assert any(key[2] == "fib" for key in pstats.Stats(profiler).stats)  # type: ignore[attr-defined]


@pytest.mark.skipif(sys.version_info < (3, 12), reason="a thread has one profile function")
def test_cprofile_and_fastprof_trace_at_the_same_time() -> None:
    profiler = cProfile.Profile()
    profiler.enable()
    with fastprof.profile(python_calls=True) as prof:
        fib(3)
    profiler.disable()
    (by_cprofile,) = [v for k, v in pstats.Stats(profiler).stats.items() if k[2] == "fib"]  # type: ignore[attr-defined]
    assert by_cprofile[:2] == (1, 5)
    assert {f.function: f.calls for f in prof.python_calls().functions}["fib"] == 5
    assert "python_calls" not in prof.missing


def test_a_tracer_goes_on() -> None:
    lines = 0

    def tracer(frame: Any, event: str, argument: Any) -> Any:
        nonlocal lines
        lines += event == "line"
        return tracer

    before = sys.gettrace()
    sys.settrace(tracer)
    try:
        with fastprof.profile(python_calls=True) as prof:
            fib(3)
    finally:
        sys.settrace(before)
    assert lines >= 5
    assert {f.function: f.calls for f in prof.python_calls().functions}["fib"] == 5
