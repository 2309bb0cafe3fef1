# SPDX-License-Identifier: Apache-2.0
"""Shares of sampled functions, lines, waits and tracebacks of programs whose shares are known; who prints them."""

import contextlib
import ctypes
import os
import select
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from processes import python
from sampled_programs import sampled, spin

import fastprof

PLANTED = """
def work(units):
    x = 0
    for i in range(units * 2000):
        x += i
    return x
""" + "\n".join(f"def f{i}(): work({i})" for i in range(1, 11))


def test_shares_of_planted_functions():
    """Ten functions use 1/55 to 10/55 of the CPU; chi-square with 9 degrees of freedom, bound far beyond chance."""
    planted = {}
    exec(compile(PLANTED, "planted.py", "exec"), planted)

    def run():
        end = time.thread_time() + 0.6
        while time.thread_time() < end:
            for i in range(1, 11):
                planted[f"f{i}"]()

    samples = sampled(run).samples()
    shares = {s.name: s for s in samples.shares(mode="cpu") if s.file == "planted.py"}
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
    def run():
        with fastprof.record_function("step"):
            spin(0.2)
        spin(0.2)

    prof = sampled(run)
    table = prof.event_table
    categories, sites = table.sites.field("category"), table.column("site")
    rows = [i for i in range(len(table)) if categories[sites[i]] == "sample"]
    parents = {int(table.column("parent")[i]) for i in rows} - {-1, *rows}
    assert {table.name(i) for i in parents} == {"step"}
    step = next(i for i in range(len(table)) if table.name(i) == "step")
    own = [i for i in rows if table.recording_thread[i] == table.recording_thread[step]]
    before_end = table.start_ns[own] < table.end_ns[step]
    assert bool((table.end_ns[own][before_end] <= table.end_ns[step]).all())
    assert [a.key for a in prof.key_averages()] == ["step"]
    for name in ("trace.json", "trace.pftrace", "trace.fastprof"):
        prof.export(tmp_path / name)
        assert any("spin" in n for n in fastprof.load(tmp_path / name).names)


def test_who_holds_the_gil_who_waits_and_in_which_call(tmp_path):
    if not Path("/proc/self/task").is_dir() or not Path("/proc/self/syscall").exists():
        pytest.skip("the system does not say in which call a thread is")
    ends, never, (reads, writes) = threading.Event(), threading.Lock(), os.pipe()
    never.acquire()

    def works():
        until = time.thread_time() + 0.4
        while time.thread_time() < until:
            sum(range(50))

    def hold():
        ctypes.PyDLL(None).usleep(400_000)  # keeps the GIL

    calls = {
        "spin 1": works, "spin 2": works, "hold": hold,
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

    samples = sampled(run, 500).samples()
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


def test_samples_of_threads_with_an_exception():
    """Functions that run once, inside or outside of a handler: a sample is wrong at most where one follows another."""

    def before():
        spin(0.2)

    def handles():
        spin(0.2)

    def generates():
        spin(0.2)
        yield

    def unwinds():
        try:
            raise KeyError
        finally:
            spin(0.2)

    def after():
        spin(0.2)

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

    samples = sampled(on_a_thread).samples()
    raised = {s.name.rpartition(".")[2]: s.total for s in samples.shares(mode="exception")}
    for share in samples.shares():
        name = share.name.rpartition(".")[2]
        if name in ("before", "after"):
            assert raised.get(name, 0) <= 2 < share.total
        elif name in ("handles", "generates", "unwinds"):
            assert share.total - raised.get(name, 0) <= 2 < share.total
    assert {"handles", "generates", "unwinds"} <= raised.keys()


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
