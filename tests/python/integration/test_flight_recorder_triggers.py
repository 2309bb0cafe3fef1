# SPDX-License-Identifier: Apache-2.0
"""What makes a flight recorder write: hangs, slow steps, exceptions, requests of commands; and what it refuses."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from processes import python
from recorder_programs import STEPS, WAIT_S, command, listed, program, records

import fastprof
from fastprof import errors
from fastprof.flight_recorder.step_times import StepTimes

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="backing files are read on Linux")


def wait_for(folder: Path, pattern: str) -> Path:
    end_s = time.monotonic() + WAIT_S
    while time.monotonic() < end_s:
        for path in folder.glob(pattern):
            return path
        time.sleep(0.02)
    raise AssertionError(f"no {pattern} in {folder}")


def test_what_makes_it_write_a_dump(folder: Path, tmp_path: Path) -> None:
    """By a clock that only the program moves on, so that no other step is slow on a busy machine."""
    code = """
import threading, time
from fastprof import flight_recorder, record_function
now_s = time.monotonic()
time.monotonic = lambda: now_s
for number in range(40):
    with record_function("work"):
        time.sleep(1.0 if number == 30 else 0.002)
        now_s += 1.0 if number in (30, 35) else 0.002
    flight_recorder.step()
def fail():
    raise KeyError("in a thread")
thread = threading.Thread(target=fail); thread.start(); thread.join()
gate = threading.Lock(); gate.acquire()
threading.Thread(target=gate.acquire, name="stuck", daemon=True).start()
now_s += 2.0
while "hang" not in flight_recorder.status()["dumps"]:
    time.sleep(0.01)
print(flight_recorder.metrics())
raise ValueError("at the end")
"""
    given = os.environ["FASTPROF_FLIGHT_RECORDER"]
    done = python("-c", code, FASTPROF_FLIGHT_RECORDER=f"{given},hang_s=1.5,slow_step=50")
    assert done.returncode == 1 and "ValueError: at the end" in done.stderr
    dumps = {path.name.split("-", 3)[-1]: path for path in tmp_path.glob("*.flight")}
    assert sorted(dumps) == ["exception.flight", "hang.flight", "slow-step.flight"]  # one each
    assert 'suppressed_total{reason="slow step"} 1' in done.stdout
    assert "fastprof_step_seconds_count 39" in done.stdout
    text = command("report", dumps["slow-step.flight"])
    assert "slow step: step 30 took 1.000 s" in text and ": <module> (<string>:10)" in text
    assert "KeyError: 'in a thread'" in command("report", dumps["exception.flight"])
    assert re.search(
        r"\n  stuck \(\d+\): \w+ \[\S+\] in Thread.run", command("report", dumps["hang.flight"])
    )
    assert "ProfilerStep#30 took" in command("explain", dumps["slow-step.flight"])
    assert records(folder) == []


def test_an_exception_in_a_task_makes_a_dump(folder: Path, tmp_path: Path) -> None:
    code = """
import asyncio, fastprof
async def fail(): raise KeyError("in a task")
async def main():
    task = asyncio.ensure_future(fail())
    await asyncio.sleep(0.01)
asyncio.run(main())
"""
    done = python("-c", code)
    assert done.returncode == 0 and "never retrieved" in done.stderr
    (dump,) = tmp_path.glob("*.flight")
    assert "KeyError: 'in a task' in asyncio" in command("report", dump)


@pytest.mark.parametrize(
    ("code", "exit_code"), [("pass", 0), ("import sys; sys.exit(5)", 5), ("1 / 0", 1)]
)
def test_run_under_a_recorder_ends_as_without(
    folder: Path, tmp_path: Path, code: str, exit_code: int
) -> None:
    option = "--flight-recorder=" + os.environ.pop("FASTPROF_FLIGHT_RECORDER")
    done = python("-m", "fastprof", "run", option, "-c", code)
    assert done.returncode == exit_code, done.stderr
    assert len(list(tmp_path.glob("*exception.flight"))) == (exit_code == 1)
    assert records(folder) == []


def test_profiles_of_a_running_process(folder: Path, tmp_path: Path) -> None:
    end = tmp_path / "end"
    with program(STEPS, end) as process:
        wait_for(folder, "*.sock")
        pid = process.pid
        command("profile", pid, "--seconds", 0.3, "-o", tmp_path / "a.json")
        command(
            "profile", "flight_recorder.step", "--group", "--steps", 3, "-o", tmp_path / "b.json"
        )
        command("start", pid, "--calls")
        again = python("-m", "fastprof", "start", pid)
        assert again.returncode == 2 and "fastprof stop" in again.stderr
        time.sleep(0.3)
        command("stop", pid, "-o", tmp_path / "c.fastprof")
        (row,) = listed()
        assert row["pid"] == pid and row["state"] == "recording" and row["steps"] > 20
        words = [sys.executable, "-m", "fastprof", "profile", str(pid), "--seconds", "600"]
        with subprocess.Popen(words, cwd=tmp_path, stdout=subprocess.DEVNULL) as running:
            while "profiling" not in command("ps"):
                assert running.poll() is None
            again = python("-m", "fastprof", "start", pid)
            assert again.returncode == 2 and "runs already" in again.stderr
            running.kill()
        end.touch()
        assert process.wait(WAIT_S) == 0
    assert records(folder) == [] and list(folder.glob("*.sock")) == []
    (of_steps,) = tmp_path.glob("b-*.json")
    for path in (tmp_path / "a.json", of_steps, tmp_path / "c.fastprof"):
        names = set(fastprof.load(path).names)
        assert "work" in names and any(name.startswith("ProfilerStep#") for name in names)
    steps = [name for name in fastprof.load(of_steps).names if name.startswith("ProfilerStep#")]
    assert len(steps) == 3


def test_no_profile_is_lost_by_its_path_or_by_ctrl_c(folder: Path, tmp_path: Path) -> None:
    bad, good = tmp_path / "no" / "x.json", tmp_path / "x.json"
    with program(STEPS, tmp_path / "never") as process:
        wait_for(folder, "*.sock")
        pid = str(process.pid)
        done = python("-m", "fastprof", "profile", pid, "--seconds", 600, "-o", bad)
        assert done.returncode == 2 and "does not exist" in done.stderr
        command("start", pid)
        for path, said in ((bad, "does not exist"), ("/dev/full", "The profile is kept")):
            done = python("-m", "fastprof", "stop", pid, "--to", "chrome", "-o", path)
            assert done.returncode == 2 and said in done.stderr
        assert "refused" not in done.stderr
        command("stop", pid, "-o", good)
        assert "work" in fastprof.load(good).names
        words = [sys.executable, "-m", "fastprof", "profile", pid, "--seconds=600", f"-o{good}"]
        with subprocess.Popen(words, stdout=-1, stderr=-1, text=True) as running:
            while "profiling" not in command("ps"):
                assert running.poll() is None
            running.send_signal(signal.SIGINT)
            out, err = running.communicate(timeout=WAIT_S)
        assert running.returncode == 130 and "wrote" in out and "Traceback" not in err


def test_requests_are_bounded_and_can_be_turned_off(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with program(STEPS, tmp_path / "never") as process:
        path = str(wait_for(folder, "*.sock"))
        for sent, said in (
            (b"x" * 70000 + b"\n", "at most"),
            (b"[]\n", "JSON object"),
            (b"nonsense\n", ""),
            (b'{"do": "answer"}\n', "no such request"),
            (b'{"do": "start", "options": {"on_trace_ready": "os.abort"}}\n', "invalid option"),
            (b'{"do": "profile", "path": "/x.json", "seconds": -1}\n', "above 0"),
            (b'{"do": "profile", "path": "/x.json", "seconds": 3601}\n', "at most 3600"),
            (
                b'{"do": "profile", "path": "/tmp/x.json", "steps": 10000000, "timeout_s": 0.2}\n',
                "reached",
            ),
            (b'{"do": "stop", "path": "/x.json"}\n', "no profile"),
        ):
            with socket.socket(socket.AF_UNIX) as connection:
                connection.settimeout(WAIT_S)
                connection.connect(path)
                connection.sendall(sent)
                answer = json.loads(connection.makefile().readline())
                assert not answer["ok"] and said in answer["error"]
        assert process.poll() is None
    monkeypatch.setenv("FASTPROF_CONTROL", "0")
    with program(STEPS, tmp_path / "never") as process:
        wait_for(folder, f"{process.pid}-*.records")
        assert not list(folder.glob(f"{process.pid}-*.sock"))
        assert "recording" in command("ps")
        refused = python("-m", "fastprof", "profile", process.pid, "--seconds", 1)
        assert refused.returncode == 2 and "FASTPROF_CONTROL" in refused.stderr
        command("dump", process.pid, "-o", tmp_path / "o.flight")


def test_a_request_whose_sender_is_gone_is_not_done(folder: Path, tmp_path: Path) -> None:
    # As a script may lie in the folder in which its process is asked for.
    (tmp_path / "flight_recorder.step").touch()
    with program(STEPS, tmp_path / "never") as process:
        path = str(wait_for(folder, "*.sock"))
        done = python("-m", "fastprof", "dump", "flight_recorder.step", cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        process.send_signal(signal.SIGSTOP)
        for sent in (b'{"do": "start", "options": {}}\n', b'{"do": "start"'):
            with socket.socket(socket.AF_UNIX) as connection:
                connection.connect(path)
                connection.sendall(sent)
        process.send_signal(signal.SIGCONT)
        time.sleep(0.5)
        assert [row["state"] for row in listed()] == ["recording"]


def test_a_folder_of_others_is_refused(folder: Path) -> None:
    folder.chmod(0o755)
    with pytest.raises(errors.UnavailableError, match="chmod 700"):
        fastprof.flight_recorder.start()


def test_invalid_arguments() -> None:
    for wrong in (
        {"seconds": 0},
        {"max_bytes": 1},
        {"slow_step": 1},
        {"overflow": "spill"},
        {"sample_hz": 0},
    ):
        with pytest.raises(errors.ValueError):
            fastprof.flight_recorder.start(**wrong)
    for call in (fastprof.flight_recorder.dump, fastprof.flight_recorder.status):
        with pytest.raises(errors.StateError, match="start"):
            call()
    fastprof.flight_recorder.step()  # no effect


def test_quantiles_of_steps_are_within_one_percent() -> None:
    drawn = np.random.default_rng(3).lognormal(-5, 2, 20000)
    steps = StepTimes()
    for value in drawn.tolist():
        steps.add(value)
    for q in (0, 0.5, 0.9, 0.99, 0.999, 1):
        exact = float(np.quantile(drawn, q, method="inverted_cdf"))
        assert abs(steps.quantile_s(q) - exact) <= 0.0101 * exact
    assert steps.median_s() == float(np.median(drawn[-101:]))
