# SPDX-License-Identifier: Apache-2.0
"""Sampled stacks against programs whose shares are known, and against what may happen to a sampled thread."""

import asyncio
import contextlib
import ctypes
import json
import os
import random
import select
import subprocess
import sys
import threading
import time
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from processes import python

import fastprof

PLANTED = """
def work(units):
    x = 0
    for i in range(units * 2000):
        x += i
    return x
""" + "\n".join(f"def f{i}(): work({i})" for i in range(1, 11))


def _own(samples, mode="wall"):
    return {s.name: s for s in samples.shares(mode=mode)}


def _sampled(function, hz=1000):
    with fastprof.profile(sample_hz=hz) as prof:
        function()
    if "sample_hz" in prof.missing and prof._results[-1].samples is None:
        pytest.skip(prof.missing["sample_hz"])
    return prof


def test_shares_of_planted_functions():
    """Ten functions use 1/55 to 10/55 of the CPU; chi-square with 9 degrees of freedom, bound far beyond chance."""
    planted = {}
    exec(compile(PLANTED, "planted.py", "exec"), planted)

    def run():
        end = time.thread_time() + 0.6
        while time.thread_time() < end:
            for i in range(1, 11):
                planted[f"f{i}"]()

    samples = _sampled(run).samples()
    shares = {name: s for name, s in _own(samples, "cpu").items() if s.file == "planted.py"}
    counts = [shares[f"f{i}"].total if f"f{i}" in shares else 0 for i in range(1, 11)]
    size = sum(counts)
    assert size > 30
    expected = [size * i / 55 for i in range(1, 11)]
    chi_square = sum((n - e) ** 2 / e for n, e in zip(counts, expected, strict=True))
    assert chi_square < 100, counts
    work = shares["work"]
    assert work.own_low <= work.own_share <= work.own_high
    lines = {s.line for s in samples.shares("line", mode="cpu") if s.name == "work" and s.own}
    assert lines <= {2, 3, 4, 5, 6} and lines & {4, 5}  # 2: where a call begins


def test_samples_lie_below_the_open_range_and_in_exports(tmp_path):
    def spin(until):
        while time.thread_time() < until:
            pass

    def run():
        with fastprof.record_function("step"):
            spin(time.thread_time() + 0.2)
        spin(time.thread_time() + 0.2)

    prof = _sampled(run)
    table = prof.event_table
    categories, sites = table.sites.field("category"), table.column("site")
    sampled = [i for i in range(len(table)) if categories[sites[i]] == "sample"]
    parents = {int(table.column("parent")[i]) for i in sampled} - {-1, *sampled}
    assert {table.name(i) for i in parents} == {"step"}
    step = next(i for i in range(len(table)) if table.name(i) == "step")
    own = [i for i in sampled if table.recording_thread[i] == table.recording_thread[step]]
    before_end = table.start_ns[own] < table.end_ns[step]
    assert bool((table.end_ns[own][before_end] <= table.end_ns[step]).all())
    assert [a.key for a in prof.key_averages()] == ["step"]
    for name in ("trace.json", "trace.pftrace", "trace.fastprof"):
        prof.export(tmp_path / name)
        assert any("spin" in n for n in fastprof.load(tmp_path / name).names)


@pytest.mark.skipif(sys.platform != "linux", reason="the kernel's names of threads")
def test_a_thread_of_c_that_calls_python_twice():
    """Each call has a thread state of its own, and the name is the kernel's."""
    libc, called = ctypes.CDLL(None), []
    libc.pthread_self.restype = ctypes.c_void_p

    def call(_):
        libc.pthread_setname_np(ctypes.c_void_p(libc.pthread_self()), b"of C")
        with fastprof.record_function("call"):
            time.sleep(0.3)
        called or libc.pthread_setspecific(
            key, ctypes.c_void_p(1)
        )  # whose destructor is the second call
        called.append(threading.get_native_id())

    c_call = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p)(call)
    key, thread = ctypes.c_uint(), ctypes.c_void_p()
    libc.pthread_key_create(ctypes.byref(key), c_call)

    def run():
        libc.pthread_create(ctypes.byref(thread), None, c_call, None)
        libc.pthread_join(thread, None)

    names = [share.name for share in _sampled(run).samples().shares("thread")]
    assert len(called) == 2 and "of C" in names and f"thread {called[0]}" not in names


def test_the_main_thread_beside_greenlets_that_stand_for_threads(monkeypatch):
    own, threads = threading.get_native_id(), threading.enumerate
    greenlet = SimpleNamespace(native_id=own, ident=1, name="greenlet")
    monkeypatch.setattr(threading, "enumerate", lambda: [*threads(), greenlet])
    samples = _sampled(lambda: time.sleep(0.3)).samples()
    assert "MainThread" in {share.name for share in samples.shares("thread")}


def test_threads_that_are_born_and_die_deep_recursion_and_freed_code():
    def deep(n):
        return deep(n - 1) if n else time.sleep(0.002)

    def run():
        limit = sys.getrecursionlimit()
        sys.setrecursionlimit(10_000)
        try:
            deep(3000)
        finally:
            sys.setrecursionlimit(limit)
        end = time.monotonic() + 0.5
        number = 0
        while time.monotonic() < end:
            scope = {}
            exec(f"def made_{number}():\n    return sum(range(2000))\nmade_{number}()", scope)
            thread = threading.Thread(target=sum, args=(range(2000),))
            thread.start()
            thread.join()
            number += 1

    samples = _sampled(run, 5000).samples()
    names = {s.name for s in samples.shares()}
    made = {n for n in names if n.startswith("made_")}
    assert all(n.removeprefix("made_").isdigit() for n in made)
    assert samples.stacks.counts["ticks"] > 0


def test_forked_child_ends_without_the_sampler():
    code = """if True:
        import contextlib, glob, os, fastprof, time

        def until_sampled():
            waits = 0  # of the sampler's thread: it waits after each sample
            while waits < 5:
                time.sleep(0.01)
                for task in glob.glob("/proc/self/task/*"):
                    with contextlib.suppress(OSError):  # the thread has ended
                        if "fastprof-sample" in open(task + "/comm").read():
                            facts = dict(line.split(":", 1) for line in open(task + "/status"))
                            waits = int(facts["voluntary_ctxt_switches"])

        with fastprof.profile(sample_hz=2000) as prof:
            until_sampled()
            pid = os.fork()
            if pid == 0:
                with fastprof.profile(sample_hz=2000) as own: until_sampled()
                assert len(own.samples()) > 0
                os._exit(7)
            assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 7
        print(len(prof.samples()) > 0)
    """
    done = python("-c", code)
    assert done.stdout == "True\n", done.stderr


def test_without_the_option_nothing_samples():
    with fastprof.profile() as prof:
        names = {path.read_text() for path in Path("/proc/self/task").glob("*/comm")}
    assert not any("fastprof-sample" in name for name in names)
    with pytest.raises(fastprof.errors.StateError, match="sample_hz=1000"):
        prof.samples()
    with pytest.raises(ValueError, match="sample_hz"):
        fastprof.profile(sample_hz=0)


def test_who_holds_the_gil_who_waits_and_in_which_call(tmp_path):
    if not Path("/proc/self/task").is_dir() or not Path("/proc/self/syscall").exists():
        pytest.skip("the system does not say in which call a thread is")
    ends, never, (reads, writes) = threading.Event(), threading.Lock(), os.pipe()
    never.acquire()

    def spin():
        until = time.thread_time() + 0.4
        while time.thread_time() < until:
            sum(range(50))

    def hold():
        ctypes.PyDLL(None).usleep(400_000)  # keeps the GIL

    calls = {
        "spin 1": spin, "spin 2": spin, "hold": hold,
        "lock": lambda: never.acquire(timeout=1.5),
        "poll": lambda: select.select([reads], [], [], 1.5),
        "sleep": lambda: time.sleep(1.5),
        "waits for a process": lambda: subprocess.run(["sleep", "1.5"], check=True),
    }  # fmt: skip

    def thread_of(function):
        function()
        ends.wait()

    def run():
        threads = [threading.Thread(target=thread_of, args=(f,), name=n) for n, f in calls.items()]
        for thread in threads:
            thread.start()
        time.sleep(2)

    samples = _sampled(run, 500).samples()
    ends.set()
    os.close(reads)
    os.close(writes)
    uses = {use.name: use for use in samples.gil()}
    assert uses["hold"].blocked_s > 0.2 and uses["hold"].held_s >= uses["hold"].blocked_s
    for name in ("spin 1", "spin 2"):
        assert uses[name].held_s > 0.1 and uses[name].waited_s > 0.1, uses
        assert uses[name].blocked_s < 0.1
    assert any("hold" in use.name for use in samples.gil("function"))
    assert "hold" in samples.gil_table() and samples.shares(mode="gil_wait")
    for name in ("lock", "poll", "sleep", "waits for a process"):
        waits = {s.name: s.own_share for s in samples.shares("wait", thread=name)}
        sleeps_in_select = name == "sleep" and sys.version_info < (3, 11)
        assert waits["poll" if sleeps_in_select else name] > 0.3, (name, waits)
    with pytest.raises(ValueError, match="thread, function or line"):
        samples.gil("module")


def test_shares_of_asyncio_tasks():
    """Two tasks with 3/4 and 1/4 of the CPU time of the tasks; chi-square, bound far beyond chance."""

    def spin(seconds):
        until = time.thread_time() + seconds
        while time.thread_time() < until:
            pass

    async def work(seconds):
        for _ in range(20):
            spin(seconds)
            await asyncio.sleep(0)

    async def main():
        long = asyncio.create_task(work(0.03), name="long")
        await asyncio.gather(long, asyncio.create_task(work(0.01), name="short"))

    def run():
        spin(0.2)
        asyncio.run(main())

    samples = _sampled(run).samples()
    counts = {s.name: s.own for s in samples.shares("task", mode="cpu")}
    size = counts["long"] + counts["short"]
    expected = {"long": 0.75 * size, "short": 0.25 * size}
    chi_square = sum((counts[name] - n) ** 2 / n for name, n in expected.items())
    assert size > 50 and chi_square < 40, counts
    assert counts["(outside of tasks)"] > 20
    assert sum(counts.values()) == sum(s.own for s in samples.shares(mode="cpu"))


def test_samples_of_threads_with_an_exception():
    """Functions that run once, inside or outside of a handler: a sample is wrong at most where one follows another."""

    def spin():
        until = time.thread_time() + 0.2
        while time.thread_time() < until:
            pass

    def before():
        spin()

    def handles():
        spin()

    def generates():
        spin()
        yield

    def unwinds():
        try:
            raise KeyError
        finally:
            spin()

    def after():
        spin()

    def run():
        before()
        try:
            raise ValueError
        except ValueError:
            handles()
            next(generates())
        with contextlib.suppress(KeyError):
            unwinds()
        after()

    def on_a_thread():  # the caller's may handle an exception
        thread = threading.Thread(target=run)
        thread.start()
        thread.join()

    samples = _sampled(on_a_thread).samples()
    raised = {s.name.rpartition(".")[2]: s.total for s in samples.shares(mode="exception")}
    for share in samples.shares():
        name = share.name.rpartition(".")[2]
        if name in ("before", "after"):
            assert raised.get(name, 0) <= 2 < share.total
        elif name in ("handles", "generates", "unwinds"):
            assert share.total - raised.get(name, 0) <= 2 < share.total
    assert {"handles", "generates", "unwinds"} <= raised.keys()


def test_where_suspended_tasks_wait():
    """Tasks whose chains of awaits are known: each sample of a task has its chain, and threads have no sample more."""

    class Awaitable:
        def __await__(self):
            yield from asyncio.Event().wait().__await__()

    async def inner():
        await asyncio.get_running_loop().create_future()

    async def outer():
        await inner()

    async def generates():
        await inner()
        yield

    async def iterates():
        async for _ in generates():
            pass

    async def custom():
        await Awaitable()

    async def main():
        tasks = [asyncio.create_task(f(), name=f.__name__) for f in (outer, iterates, custom)]
        tasks += [asyncio.create_task(inner()) for _ in range(20)]
        for _ in range(150):
            await asyncio.sleep(0.01)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    with fastprof.profile(sample_hz=200, sample_tasks=True) as prof:
        asyncio.run(main())
    if "sample_hz" in prof.missing:
        pytest.skip(prof.missing["sample_hz"])
    samples = prof.samples()
    stacks = samples.stacks
    chains = {}
    for run in range(len(stacks.node)):
        if stacks.is_task[run] and stacks.count[run]:
            codes = (stacks.codes[stacks.code[node]][0] for node in stacks.path(stacks.node[run]))
            chain = [name.rpartition(".")[2] for name in codes][::-1]
            if not chain[-1].startswith("(ready"):
                name = stacks.threads[stacks.thread[run]][1].removeprefix("task ")
                chains.setdefault(name.rpartition(".")[2], set()).add(tuple(chain))
    expected = {
        "main": {("main", "sleep")},
        "outer": {("outer", "inner")},
        "iterates": {("iterates", "generates", "inner")},
        "custom": {("custom", "__await__", "wait")},
        "inner": {("inner",)},
    }
    # Packages that other tests use may have left tasks in the process.
    assert {name: chains.get(name) for name in expected} == expected
    shares = {s.name.rpartition(".")[2]: s for s in samples.shares(mode="awaits")}
    assert shares["inner"].own > 10 * shares["outer"].total > 0
    assert len(samples) == sum(s.own for s in samples.shares("wait"))
    assert any(track.name == "task outer" for track in prof.event_table.tracks)
    # 23 tasks wait most of 1.5 s each, and none of it is time on a CPU of a thread.
    duration_s = (prof.event_table.t1_ns - prof.event_table.t0_ns) / 1e9
    assert prof.events().self_cpu_time_total / 1e6 < stacks.threads_size * duration_s + 1
    with pytest.raises(ValueError, match="sample_hz=1000"):
        fastprof.profile(sample_tasks=True)


def test_sampling_tasks_leaves_the_programs_random_numbers_alone():
    random.seed(7)
    expected = random.random()
    random.seed(7)
    with fastprof.profile(sample_hz=1000, sample_tasks=True):
        asyncio.run(asyncio.sleep(0.1))
    assert random.random() == expected


def test_command_prints_shares(tmp_path):
    script = tmp_path / "program.py"
    script.write_text(
        "import time\ndef busy():\n    end = time.thread_time() + .3\n"
        "    while time.thread_time() < end: pass\nbusy()\n"
    )
    words = ("run", "--sample", "-o", tmp_path / "t.json", script)
    done = python("-m", "fastprof", *words, check=True)
    assert "busy" in done.stderr and "samples of 1 threads at 1000 Hz" in done.stderr
    assert "program_recording" not in done.stderr


def test_command_prints_a_mode_of_samples(tmp_path):
    script = tmp_path / "program.py"
    script.write_text(
        "import time\ndef busy():\n    end = time.thread_time() + .3\n"
        "    while time.thread_time() < end: pass\ndef idle():\n    time.sleep(.3)\nbusy()\nidle()\n"
    )
    words = ("run", "--no-trace", script)
    cpu = python("-m", "fastprof", words[0], "--sample-mode", "cpu", *words[1:], check=True).stderr
    off = python("-m", "fastprof", words[0], "--sample-mode=off_cpu", *words[1:], check=True).stderr
    # One sample of idle() may be on a CPU: where its sleep begins.
    rows = [line for line in cpu.splitlines() if ": busy" in line or ": idle" in line]
    assert "mode cpu" in cpu and ": busy" in rows[0]
    assert "mode off_cpu" in off and ": idle" in off
    wrong = python("-m", "fastprof", words[0], "--sample-mode", "x", *words[1:])
    assert wrong.returncode != 0 and "off_cpu" in wrong.stderr


def test_explain_names_the_function_outside_of_ranges():
    """A step of 100 ns with a range of 20 ns: 70 ns were sampled outside of it, 60 ns in json.loads."""
    sample = {"category": "sample"}
    sites = [
        fastprof.Site("ProfilerStep#0"),
        fastprof.Site("forward"),
        fastprof.Site("load (a.py:1)", file="/project/a.py", **sample),
        fastprof.Site("loads (b.py:2)", file="/usr/lib/python3.11/json/b.py", **sample),
        fastprof.Site("decode (c.py:3)", file="/usr/lib/python3.11/json/c.py", **sample),
        fastprof.Site("inner (a.py:9)", file="/project/a.py", **sample),
    ]
    table = fastprof.EventTable(
        {
            "start_ns": [0, 0, 0, 0, 80, 85],
            "end_ns": [100, 70, 60, 55, 100, 95],
            "site": [0, 2, 3, 4, 1, 5],
        },
        sites=sites,
        tracks=[fastprof.table.Track(0)],
    )
    explanation = fastprof.analysis.explain(table)
    (claim,) = explanation.unnamed
    assert claim.text.startswith("70.0 % of the steps")
    assert claim.text.endswith("in loads (b.py:2), called by load (a.py:1)")
    assert claim.ns == 60
    assert any("loads (b.py:2)  (sampled)" in each.text for each in explanation.where)


def test_a_thread_without_python_frames_has_no_rows():
    from fastprof.decode.sample_rows import with_samples
    from fastprof.model.sampled_stacks import SampledStacks

    columns = {"first_ns": 10, "last_ns": 10, "thread": 0, "node": -1, "count": 1, "state": 2}
    stacks = SampledStacks(
        hz=1000,
        **{name: np.array([value]) for name, value in columns.items()},
        **{name: np.zeros(0, np.int32) for name in ("parent", "code", "line")},
        codes=(),
        threads=((7, "worker"),),
        counts={},
    )
    table = fastprof.EventTable({"start_ns": [], "end_ns": [], "site": [], "parent": []}, sites=())
    assert len(with_samples(table, stacks)) == 0


def test_fastprofs_own_threads_are_not_sampled():
    """Those of a recorder, and of profiles; a thread whose function fastprof wraps is the program's."""
    program = """
import _thread, threading, time
import fastprof
def spin():
    until = time.thread_time() + 0.3
    while time.thread_time() < until:
        pass
def work(done):
    spin()
    done.release()
fastprof.flight_recorder.start()
done = _thread.allocate_lock()
for _ in range(3):
    with fastprof.profile(sample_hz=500, sample_tasks=True) as prof:
        done.acquire()
        _thread.start_new_thread(fastprof.propagate(work), (done,))
        spin()
        with done:
            pass
    samples = prof.samples()
    print(len(samples.stacks.threads), sum(share.name.endswith("work") for share in samples.shares()), prof.missing)
"""
    done = python("-c", program, check=True)
    assert done.stdout == "2 1 {}\n" * 3 or "stacks are not sampled" in done.stdout, done.stdout


def test_a_thread_that_has_not_begun_is_left_out():
    """It has the id of its creator, and no frame. Another thread without frames stays."""
    from fastprof.model.sampled_stacks import SampledStacks

    run = {name: np.array([1, 2, 3]) for name in ("first_ns", "last_ns", "count", "state")}
    stacks = SampledStacks(
        hz=1000,
        **run,
        thread=np.array([0, 1, 2]),
        node=np.array([0, -1, -1]),
        **{name: np.array([value]) for name, value in (("parent", -1), ("code", 0), ("line", 1))},
        codes=(("main", "a.py", 1),),
        threads=((5, "MainThread"), (5, "MainThread"), (7, "worker")),
        counts={},
    )
    left = stacks.without_own_threads(lambda file: file == "own.py")
    assert left.threads == ((5, "MainThread"), (7, "worker"))
    assert left.first_ns.tolist() == [1, 3]
    assert not stacks.without_own_threads(lambda file: file == "a.py").thread.tolist()[1:]


def test_waits_of_tasks_are_no_cpu_time(tmp_path):
    """A thread that runs for 4 ms, and two tasks that wait for 7 ms each; a foreign track named as tasks are."""
    from fastprof.decode.sample_rows import with_samples
    from fastprof.model.sampled_stacks import AWAITS_STATE, SampledStacks

    stacks = SampledStacks(
        hz=1000,
        first_ns=np.array([1_000_000] * 3),
        last_ns=np.array([4_000_000, 7_000_000, 7_000_000]),
        thread=np.arange(3),
        node=np.array([0, 2, 2]),
        count=np.array([4, 7, 7]),
        state=np.array([2, AWAITS_STATE, AWAITS_STATE]),
        parent=np.array([-1, -1, 1]),
        code=np.array([0, 1, 2]),
        line=np.array([1, 2, 3]),
        codes=(("runs", "a.py", 1), ("outer", "a.py", 2), ("waits", "a.py", 3)),
        threads=((7, "MainThread"), (0, "task a"), (0, "task b")),
        counts={},
        tasks_hz=50.0,
    )
    empty = fastprof.EventTable({"start_ns": [], "end_ns": [], "site": [], "parent": []}, sites=())
    table = with_samples(empty, stacks)
    tables = [table]
    for name in ("a.fastprof", "a.json", "a.pftrace", "a.gecko.json"):
        table.export(str(tmp_path / name))
        tables.append(fastprof.load(tmp_path / name))
    for each in tables:
        events = each.events()
        averages = events.key_averages(include_python_functions=True)
        assert events.self_cpu_time_total == averages.self_cpu_time_total == 4000
        assert {e.name: e.self_cpu_time_total for e in events if e.self_cpu_time_total} == {
            "runs (a.py:1)": 4000
        }
    named = {"ph": "M", "name": "thread_name", "pid": 1, "tid": 0, "args": {"name": "task worker"}}
    op = {"ph": "X", "name": "op", "cat": "cpu_op", "pid": 1, "tid": 0, "ts": 0, "dur": 1000}
    (tmp_path / "b.json").write_text(json.dumps({"traceEvents": [named, op]}))
    assert fastprof.load(tmp_path / "b.json").events().self_cpu_time_total == 1000
