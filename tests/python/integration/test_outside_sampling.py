# SPDX-License-Identifier: Apache-2.0
"""fastprof attach --outside: samples of programs whose shares and waits are known, and processes that end meanwhile."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from processes import thread_names

import fastprof
from fastprof import errors
from fastprof.attach.outside import OutsideProfile, sample_from_outside
from fastprof.views.samples import Samples

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")

ROOT = Path(__file__).resolve().parents[3]
PLANTED = """
import json, sys, threading, time
def work(units):
    x = 0
    for i in range(units * 2000):
        x += i
""" + "\n".join(f"def f{i}(): work({i})" for i in range(1, 11))
PLANTED += """
spent_ns = [0] * 11
def answer():
    for _ in sys.stdin:
        print(json.dumps(spent_ns), flush=True)
threading.Thread(target=answer, daemon=True).start()
print(flush=True)
begin = time.monotonic_ns()
while True:
    for i in range(1, 11):
        globals()[f"f{i}"]()
        end = time.monotonic_ns()
        spent_ns[i] += end - begin
        begin = end
"""
WAITS = """
import os, threading, time
def sleeps():
    time.sleep(600)
def locked():
    lock = threading.Lock()
    lock.acquire()
    lock.acquire()
def reads():
    os.read(os.pipe()[0], 1)
def handles():
    print(os.getpid(), flush=True)
    try:
        raise ValueError
    except ValueError:
        while True:
            pass
for each in (sleeps, locked, reads):
    threading.Thread(target=each, daemon=True).start()
handles()
"""


def interpreters() -> list[str]:
    """This interpreter, and the newest other one that publishes the offsets of its frames."""
    sys.path.insert(0, str(ROOT / "packaging"))
    from interpreters import installed

    own = f"3.{sys.version_info.minor}"
    others = (next(installed(v), None) for v in ("3.15", "3.14", "3.13") if v != own)
    return [sys.executable, str(next((each for each in others if each is not None), ""))]


@pytest.fixture(params=(0, 1), ids=("this", "published"))
def interpreter(request: pytest.FixtureRequest) -> str:
    path = interpreters()[request.param]
    if not path:
        pytest.skip("no other CPython 3.13 to 3.15 is on this machine")
    return path


@contextlib.contextmanager
def running(code: str, interpreter: str = sys.executable) -> Iterator[subprocess.Popen[str]]:
    """A program that has printed a line."""
    words = [interpreter, "-c", code]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stdin=subprocess.PIPE, text=True) as it:
        try:
            assert it.stdout is not None
            it.stdout.readline()
            yield it
        finally:
            it.kill()


def sampled(pid: int, seconds: float, least: int) -> OutsideProfile:
    """Samples of a process, for as long as a busy machine needs to take some."""
    for _ in range(20):
        found = sample_from_outside(pid, 1000, seconds)
        if found.stacks is not None and found.stacks.counts["ticks"] >= least:
            return found
    raise AssertionError("hardly any samples")


def test_shares_of_planted_functions(interpreter: str) -> None:
    """Ten functions with 1 to 10 units of work; chi-square with 9 degrees of freedom, bound far beyond chance.

    The program says how long it was in each, so that its waits for a CPU count on both sides.
    """

    def spent_ns() -> list[int]:
        assert program.stdin is not None and program.stdout is not None
        program.stdin.write("\n")
        program.stdin.flush()
        spent: list[int] = json.loads(program.stdout.readline())
        return spent

    with running(PLANTED, interpreter) as program:
        for _ in range(20):  # as long as a busy machine needs to take some samples
            before = spent_ns()
            found = sample_from_outside(program.pid, 100, 4)
            after = spent_ns()
            if found.stacks is not None and found.stacks.counts["ticks"] >= 100:
                break
    assert found.stacks is not None
    shares = {s.name: s for s in Samples(found.stacks).shares(mode="cpu")}
    counts = [shares[f"f{i}"].total if f"f{i}" in shares else 0 for i in range(1, 11)]
    in_each = [after[i] - before[i] for i in range(1, 11)]
    expected = [sum(counts) * each / sum(in_each) for each in in_each]
    chi_square = sum((n - e) ** 2 / e for n, e in zip(counts, expected, strict=True))
    assert sum(counts) > 30 and chi_square < 100, (counts, in_each)
    assert found.table.pid == program.pid
    assert any(name.startswith("work") for name in found.table.names)


def test_states_of_threads(interpreter: str) -> None:
    with running(WAITS, interpreter) as program:
        found = sampled(program.pid, 0.5, 30)
    assert found.stacks is not None
    samples = Samples(found.stacks)
    for mode in ("gil", "exception"):
        assert {s.name for s in samples.shares(mode=mode) if s.own} == {"handles"}
    assert "handles" in {s.name for s in samples.shares(mode="cpu") if s.own}
    waiting = {s.name for s in samples.shares(mode="off_cpu") if s.own}
    assert {"sleeps", "locked", "reads"} <= waiting
    assert {"sleep", "lock", "read"} <= {s.name for s in samples.shares("wait")}
    threads = [name for _, name in found.stacks.threads]
    assert len(set(threads)) == 4 and threads.count("MainThread") == 1


def say_so_when_sampled(program: subprocess.Popen[str]) -> None:
    """Send the program a line 0.1 s after this process has a thread that samples."""
    while "fastprof-sample" not in thread_names():
        if program.poll() is not None:  # the test has failed
            return
        time.sleep(0.1)
    time.sleep(0.1)
    assert program.stdin is not None
    program.stdin.write("\n")
    program.stdin.flush()


@pytest.mark.parametrize(
    ("end", "said"),
    [("os._exit(0)", "ended"), ("os.execvp('sleep', ['sleep', '600'])", "another program")],
)
def test_a_process_that_ends_or_executes_another_program(end: str, said: str) -> None:
    code = f"import os\nprint(1, flush=True)\ninput()\n{end}"
    with running(code) as program:
        ending = threading.Thread(target=say_so_when_sampled, args=(program,), daemon=True)
        ending.start()
        found = sample_from_outside(program.pid, 1000, 500)
        ending.join()
    assert len(found.notes) == 1 and said in found.notes[0]
    assert found.table.pid == program.pid


def test_a_stopped_process_is_sampled_where_it_stands() -> None:
    with running("print(flush=True)\nx = 0\nwhile True:\n x += 1\n x -= 1") as program:
        program.send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, program.pid, os.WSTOPPED | os.WNOWAIT)
        found = sampled(program.pid, 0.5, 5)
        assert "kill -CONT" in found.notes[0]
    assert found.stacks is not None
    innermost = {s.name for s in Samples(found.stacks).shares("line") if s.own}
    assert len(innermost) == 1


def test_the_command_writes_a_file_and_prints_shares(tmp_path: Path) -> None:
    out = tmp_path / "work.speedscope.json"
    with running(PLANTED) as program:
        words = [sys.executable, "-m", "fastprof", "attach", str(program.pid), "--outside"]
        words += ["--seconds", "1", "-o", str(out)]
        done = subprocess.run(words, capture_output=True, text=True, timeout=300)
        assert program.poll() is None
    assert done.returncode == 0, done.stderr
    assert "own %" in done.stdout and "wrote" in done.stdout
    assert any("work" in name for name in fastprof.load(out).names)


def test_what_cannot_be_sampled() -> None:
    with pytest.raises(errors.ValueError, match="no process"):
        sample_from_outside(2**22 + 1, 100, 1)
    with subprocess.Popen(["sleep", "600"]) as other:
        with pytest.raises(errors.ValueError, match="does not run CPython"):
            sample_from_outside(other.pid, 100, 1)
        other.kill()


# Before 3.12 a loop in one interpreter lets no other one run.
SUBINTERPRETERS = """
import os, threading, time
try:
    import _interpreters as interpreters
except ImportError:
    import _xxsubinterpreters as interpreters
run_in = getattr(interpreters, "run_string", None) or interpreters.exec
def in_main():
    while True:
        time.sleep(0.01)
def runs(number):
    run_in(created[number], f"import time\\ndef in_sub_{number}():\\n while True: time.sleep(0.01)\\nin_sub_{number}()")
interpreters.destroy(interpreters.create())
created = [interpreters.create() for _ in range(3)]
for number in (1, 2):
    threading.Thread(target=runs, args=(number,), daemon=True).start()
print(os.getpid(), flush=True)
in_main()
"""


def test_subinterpreters(tmp_path: Path, interpreter: str) -> None:
    """Two interpreters run, beside the main one and one that has run nothing; an earlier one had the id 1."""
    with running(SUBINTERPRETERS, interpreter) as program:
        for _ in range(20):  # until each has had the CPU, however busy the machine is
            found = sample_from_outside(program.pid, 1000, 1)
            assert found.stacks is not None
            functions = {share.name: share.own for share in Samples(found.stacks).shares()}
            if {"in_main", "in_sub_1", "in_sub_2"} <= functions.keys():
                break
        assert {"in_main", "in_sub_1", "in_sub_2"} <= functions.keys(), functions
    threads = [share.name for share in Samples(found.stacks).shares("thread")]
    assert {name[-15:] for name in threads if "interpreter" in name} == {
        "(interpreter 3)",
        "(interpreter 4)",
    }
    found.table.export(tmp_path / "a.json")
    tracks = {track.name for track in fastprof.load(tmp_path / "a.json").tracks}
    assert {*threads} <= tracks | {"MainThread"}


@pytest.mark.parametrize(("at_once", "missing"), [(12, True), (3, False)])
def test_more_subinterpreters_than_descriptors(tmp_path: Path, at_once: int, missing: bool) -> None:
    """What is sampled is kept and what is not is named; those that have ended hold no descriptor."""
    code = (
        SUBINTERPRETERS.partition("created =")[0]
        + f"""
def one():
    while True:
        made = interpreters.create()
        run_in(made, "import time\\ntime.sleep({600 if missing else 0.05})")
        interpreters.destroy(made)
        time.sleep(0.05)
for _ in range({at_once}):
    threading.Thread(target=one, daemon=True).start()
while len(interpreters.list_all()) <= {at_once if missing else 0}:
    time.sleep(0.01)
print(os.getpid(), flush=True)
in_main()
"""
    )
    with running(code) as program:
        words = f"-m fastprof attach {program.pid} --outside --seconds 2 -o {tmp_path}/a.json"
        limited = f"ulimit -n 12; exec {sys.executable} {words}"
        done = subprocess.run(["sh", "-c", limited], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0 and "in_main" in done.stdout, done.stderr
    assert ("subinterpreters are missing" in done.stderr + done.stdout) == missing, done.stderr
