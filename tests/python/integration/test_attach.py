# SPDX-License-Identifier: Apache-2.0
"""fastprof attach on processes that never imported fastprof: it records, leaves nothing, and says why it cannot."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from processes import python

import fastprof
from fastprof import errors
from fastprof.attach import injection, permission, processes, symbols, tracer

BY_INTERPRETER = sys.version_info >= (3, 14)  # sys.remote_exec
pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="needs Linux")

WAIT_S = 120
# What the main thread does; each waits in another way, or runs.
MAIN = {
    "runs": "while True: sum(range(10000))",
    "sleeps": "time.sleep(600)",
    "waits for a lock": "threading.Event().wait()",
    "waits for a lock with a limit": "threading.Event().wait(600)",
    "runs tasks": "import asyncio; asyncio.run(asyncio.sleep(600))",
}
PROGRAM = """
import os, sys, threading, time
def named_work():
    while True:
        sum(range(1000))
        time.sleep(0.0005)
threading.Thread(target=named_work, daemon=True).start()
print(os.getpid(), flush=True)
"""


@pytest.fixture(autouse=True)
def folder(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The processes' folder. Its name is short, because the path of a socket has at most 107 bytes."""
    path = tempfile.mkdtemp(prefix="fp")
    monkeypatch.setenv("FASTPROF_PROCESS_FOLDER", path)
    yield Path(path)
    shutil.rmtree(path)


@contextlib.contextmanager
def program(code: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """A running program, and the first line that it has printed."""
    words = [sys.executable, "-c", code]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield process, process.stdout.readline().strip()
        finally:
            process.kill()


def command(*words: object, **environment: str) -> subprocess.CompletedProcess[str]:
    done = python("-m", "fastprof", *words, **environment)
    if any(word in done.stderr for word in ("ptrace_scope", "SYS_PTRACE", "seccomp")):
        pytest.skip(f"tracing is not permitted: {done.stderr}")
    return done


def attach(pid: int, *words: object) -> None:
    done = command("attach", pid, *words)
    assert done.returncode == 0, done.stderr


def state(pid: int) -> str:
    return processes.status_of(pid)["State"][:1]


@contextlib.contextmanager
def traced(pid: int) -> Iterator[tracer.Tracer]:
    try:
        with tracer.tracing(pid) as found:
            yield found
    except PermissionError as error:
        pytest.skip(f"tracing is not permitted: {error}")


@pytest.mark.parametrize("main", MAIN)
def test_a_running_program_is_sampled_and_goes_on(main: str, folder: Path, tmp_path: Path) -> None:
    if BY_INTERPRETER and main != "runs":
        pytest.skip("sys.remote_exec waits until the main thread runs Python code")
    with program(PROGRAM + MAIN[main]) as (process, _):
        for number in range(2):
            path = tmp_path / f"{number}.fastprof"
            attach(process.pid, "--seconds", 0.5, "-o", path)
            names = fastprof.load(path).names
            assert any("named_work" in name for name in names), list(names)
            end_s = time.monotonic() + WAIT_S
            while list(folder.iterdir()) and time.monotonic() < end_s:
                time.sleep(0.01)
            assert list(folder.iterdir()) == []
        assert process.poll() is None and state(process.pid) in "RSD"


def test_calls_are_recorded_and_all_python_processes_listed(tmp_path: Path) -> None:
    code = PROGRAM.replace("sum(range", "called(range") + MAIN["runs"]
    with program("def called(x): return sum(x)\n" + code) as (process, _):
        rows = [
            json.loads(line) for line in command("ps", "--all", "--as-json").stdout.split("\n")[:-1]
        ]
        (row,) = [row for row in rows if row["pid"] == process.pid]
        assert row["state"] == f"python{sys.version_info[0]}.{sys.version_info[1]}"
        attach(process.pid, "--calls", "--seconds", 0.5, "-o", tmp_path / "o.json")
    table = fastprof.load(tmp_path / "o.json")
    assert any(name.endswith(": called") for name in table.names)
    assert "sample" not in table.sites.field("category")


@pytest.mark.parametrize("sent", [signal.SIGKILL, signal.SIGSTOP])
def test_a_program_that_ends_or_stops_meanwhile(sent: signal.Signals, tmp_path: Path) -> None:
    with program(PROGRAM + MAIN["runs"]) as (process, _):
        words = [sys.executable, "-m", "fastprof", "attach", str(process.pid), "--seconds", "600"]
        with subprocess.Popen(words, cwd=tmp_path, stderr=subprocess.PIPE, text=True) as running:
            while "profiling" not in command("ps").stdout:
                assert running.poll() is None
            process.send_signal(sent)
            _, said = running.communicate(timeout=WAIT_S)
            assert running.returncode == 2
            assert ("ended" if sent == signal.SIGKILL else "kill -CONT") in said, said
    assert list(tmp_path.iterdir()) == []


def test_a_process_that_loses_its_memory_is_ending() -> None:
    """It is so for some ms before it becomes a zombie, and its connections are closed then already."""
    own = processes.status_of(os.getpid())
    assert not processes.has_ended(own)
    assert processes.has_ended({name: own[name] for name in own if not name.startswith("Vm")})
    assert processes.has_ended({})


def test_ctrl_c_ends_the_recording(tmp_path: Path) -> None:
    with program(PROGRAM + MAIN["runs"]) as (process, _):
        path = tmp_path / "o.fastprof"
        words = ["-m", "fastprof", "attach", str(process.pid), "--seconds", "600", "-o", str(path)]
        with subprocess.Popen(
            [sys.executable, *words], stderr=subprocess.PIPE, text=True
        ) as running:
            while "profiling" not in command("ps").stdout:
                assert running.poll() is None
            running.send_signal(signal.SIGINT)
            _, said = running.communicate(timeout=WAIT_S)
        assert running.returncode == 130 and "Traceback" not in said, said
        assert any("named_work" in name for name in fastprof.load(path).names)
        attach(process.pid, "--seconds", 0.1, "-o", path)  # no profile runs any more


def test_why_it_cannot() -> None:
    with program(PROGRAM + MAIN["sleeps"]) as (process, _):

        def refused() -> str:
            done = command("attach", process.pid)
            assert done.returncode == 2 and "Traceback" not in done.stderr
            assert process.poll() is None
            return done.stderr

        with traced(process.pid):
            assert f"tracer, process {os.getpid()}" in refused()
        process.send_signal(signal.SIGSTOP)
        while state(process.pid) != "T":
            pass
        assert f"kill -CONT {process.pid}" in refused()
        assert state(process.pid) == "T"
        with pytest.raises(tracer.TraceError, match="kill -CONT"), traced(process.pid):
            pass
        while state(process.pid) != "T":  # it stops again
            assert process.poll() is None
    gone = command("attach", process.pid)
    assert gone.returncode == 2 and "ps --all" in gone.stderr
    with subprocess.Popen(["sleep", "600"]) as other:
        assert "does not run CPython" in command("attach", other.pid).stderr
        other.kill()


def test_another_version_is_named(tmp_path: Path) -> None:
    """A program whose interpreter says 3.9 by its name."""
    old = tmp_path / "python3.9"
    shutil.copy("/bin/sleep", old)
    with subprocess.Popen([old, "600"]) as process:
        while "python3.9" not in os.readlink(f"/proc/{process.pid}/exe"):
            pass
        said = command("attach", process.pid).stderr
        process.kill()
    assert "runs CPython 3.9" in said and "3.10 and later" in said


# Fails if a number, the flags, a wait or a signal is not what it would be without calls in between.
CHECKS = """
import math, os, signal, time
came = []
signal.signal(signal.SIGUSR1, lambda *_: came.append(1))
numbers = [math.sin(i) for i in range(1000)]
once = math.fsum(numbers), sum(i * i for i in range(500))
print(os.getpid(), flush=True)
while not came:
    begin_s = time.monotonic()
    time.sleep(0.002)
    assert time.monotonic() - begin_s >= 0.002
    for _ in range(20):
        assert once == (math.fsum(numbers), sum(i * i for i in range(500)))
"""


def test_calls_on_a_thread_change_nothing_for_it() -> None:
    with program(CHECKS) as (process, _):
        at = symbols.addresses_of(process.pid, ["getpid", "drand48", "labs"])
        for number in range(300):
            with traced(process.pid) as thread:
                assert thread.call(at["getpid"]) == process.pid
                thread.call(at["drand48"])  # uses the registers of floating-point numbers
                assert thread.call(at["labs"], -(2**40) - number, result_bytes=8) == 2**40 + number
            time.sleep(0.0001 * (number % 30))
        with traced(process.pid) as thread:  # the stop takes effect at its end
            process.send_signal(signal.SIGSTOP)
            assert thread.call(at["getpid"]) == process.pid
        while state(process.pid) != "T":
            assert process.poll() is None
        process.send_signal(signal.SIGCONT)
        with traced(process.pid) as thread:
            process.send_signal(signal.SIGUSR1)
            assert thread.call(at["getpid"]) == process.pid
        assert process.wait(WAIT_S) == 0
    with program(PROGRAM + MAIN["runs"]) as (process, _):
        pause = symbols.addresses_of(process.pid, ["pause"])["pause"]
        with traced(process.pid) as thread:
            process.kill()
            with pytest.raises(tracer.TraceError, match="has ended"):
                thread.call(pause)
        assert process.wait(WAIT_S) == -signal.SIGKILL


OWN = {"Uid": "1000 1000 1000 1000", "CapEff": "0", "Seccomp": "0"}


@pytest.mark.parametrize(
    ("own", "target", "scope", "container", "said"),
    [
        ({}, {"Uid": "0 0 0 0"}, 1, False, "belongs to the user 0"),
        ({}, {}, 3, True, "until the machine restarts"),
        ({}, {}, 2, False, "to root only"),
        ({}, {}, 1, True, "sysctl kernel.yama.ptrace_scope=0"),
        ({}, {}, 0, True, "--cap-add SYS_PTRACE"),
        ({"Seccomp": "2"}, {}, 0, False, "seccomp"),
        ({"CapEff": "80000", "Seccomp": "2"}, {"Uid": "0 0 0 0"}, 1, True, "seccomp"),
        ({}, {}, 0, False, "PR_SET_DUMPABLE"),
    ],
)
def test_what_forbids_it(
    own: dict[str, str], target: dict[str, str], scope: int, container: bool, said: str
) -> None:
    reason = permission.explain_refusal({**OWN, **own}, {**OWN, **target}, scope, container)
    assert said in reason


def test_newer_interpreters_run_the_script_themselves(monkeypatch: pytest.MonkeyPatch) -> None:
    process = processes.PythonProcess(4711, 14, False, "/usr/bin/python3.14")
    given: list[tuple[int, str]] = []
    monkeypatch.setattr(sys, "remote_exec", lambda *args: given.append(args), raising=False)
    injection.run_script(process, "/a/script.py")
    assert given == [(4711, "/a/script.py")]

    def refuse(*args: object) -> None:
        raise RuntimeError("remote debugging is not enabled")

    monkeypatch.setattr(sys, "remote_exec", refuse)
    with pytest.raises(errors.UnavailableError, match="PYTHON_DISABLE_REMOTE_DEBUG"):
        injection.run_script(process, "/a/script.py")
