# SPDX-License-Identifier: Apache-2.0
"""The flight recorder of running, hanging, killed and forking programs, asked by the commands as users do."""

from __future__ import annotations

import base64
import json
import os
import random
import re
import signal
import struct
import subprocess
import sys
import time
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from processes import python
from recorder_programs import WAIT_S, command, program, records

import fastprof
from fastprof import errors
from fastprof.decode.sample_file import read_samples
from fastprof.flight_recorder.dumps import read_dump, write_dump
from fastprof.flight_recorder.step_times import StepTimes

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="backing files are read on Linux")

BUSY = """
import os, sys, threading, time
import fastprof
threads, overwritten = int(sys.argv[1]), threading.Semaphore(0)
def work(k):
    with fastprof.record_function(f"life {k}"):
        rounds = 0
        while True:
            with fastprof.record_function(f"outer {k}"):
                for _ in range(100):
                    with fastprof.record_function(f"inner {k}"):
                        pass
            rounds += 1
            if rounds == 6000 // threads:  # of all threads, more records than there is room for
                overwritten.release()
for k in range(threads):
    threading.Thread(target=work, args=(k,), daemon=True).start()
for k in range(threads):
    overwritten.acquire()
print(os.getpid(), flush=True)
time.sleep(600)
"""
STEPS = """
import os, sys, time
from fastprof import flight_recorder, record_function
number = 0
while not os.path.exists(sys.argv[1]):
    with record_function("work"):
        time.sleep(0.002)
    flight_recorder.step()
    number += 1
    if number == 100:
        print(os.getpid(), flush=True)
"""


def wait_for(folder: Path, pattern: str) -> Path:
    end_s = time.monotonic() + WAIT_S
    while time.monotonic() < end_s:
        for path in folder.glob(pattern):
            return path
        time.sleep(0.02)
    raise AssertionError(f"no {pattern} in {folder}")


def check_busy(table: Any, threads: int) -> None:
    """Check that the dump of BUSY has no torn record, no foreign one, and no hole within a thread."""
    facts = table.metadata["recovered"]
    assert not facts["damaged"] and not facts["unread_chunks"] and not facts["unknown_texts"]
    names = np.array(list(table.names))[table.name_id]
    parent, seen = table.column("parent"), set()
    for thread in set(table.recording_thread.tolist()):
        of_thread = table.recording_thread == thread
        found = {
            name.split()[1] for name in names[of_thread] if name.split()[0] in ("inner", "outer")
        }
        if not found:
            continue
        (k,) = found
        seen.add(k)
        outer = np.flatnonzero(of_thread & (names == f"outer {k}"))
        inside = of_thread & (names == f"inner {k}") & (parent >= 0)
        counts = np.bincount(parent[inside], minlength=len(table))
        assert (counts[outer[1:-1]] == 100).all()
    assert len(seen) == threads


@pytest.mark.parametrize("threads", [1, 4])
def test_dumps_of_a_running_and_of_a_killed_process_have_every_record(
    folder: Path, tmp_path: Path, threads: int
) -> None:
    with program(BUSY, threads) as process:
        (source,) = records(folder)
        for number in range(20):
            copy = tmp_path / f"{number}.flight"
            write_dump(str(source), str(copy), "test")
            check_busy(read_dump(copy), threads)
        process.kill()
        process.wait()
        (row,) = [json.loads(line) for line in command("ps", "--as-json").splitlines()]
        assert row["state"] == "ended" and row["command"] == f"-c {threads}"
        command(
            "dump", process.pid, "-o", tmp_path / "dead.flight", "-o", tmp_path / "dead.pftrace"
        )
    check_busy(read_dump(tmp_path / "dead.flight"), threads)
    assert len(fastprof.load(tmp_path / "dead.pftrace")) > 1000


@pytest.mark.parametrize("how", ["stopped", "holds the GIL"])
def test_a_process_that_cannot_answer_is_dumped(folder: Path, tmp_path: Path, how: str) -> None:
    hang = "import ctypes; ctypes.PyDLL(None).sleep(600)"
    code = STEPS if how == "stopped" else BUSY.replace("time.sleep(600)", hang)
    with program(code, 1 if how != "stopped" else tmp_path / "never") as process:
        if how == "stopped":
            process.send_signal(signal.SIGSTOP)
        while "silent" not in command("ps"):  # until it hangs
            assert process.poll() is None
        out = tmp_path / "o.flight"
        assert "open" in command("dump", process.pid, "-o", out)
        assert "fastprof dump" in command("report", out)
    assert len(read_dump(out)) > 100


@pytest.mark.parametrize("how", ["killed", "holds the GIL"])
def test_samples_outlive_the_process(folder: Path, tmp_path: Path, how: str) -> None:
    code = """
import ctypes, os, sys, time
import fastprof
def spin():
    end = time.monotonic() + 1
    while time.monotonic() < end:
        sum(range(100))
def hang():
    print(os.getpid(), flush=True)
    ctypes.PyDLL(None).sleep(600)
def made(number):
    scope = {}
    exec(f"def made_{number}(): return sum(range(1000))", scope)
    scope[f"made_{number}"]()
spin()
for number in range(200):
    made(number)
hang()
"""
    script = tmp_path / "program.py"
    script.write_text(code)
    option = "--flight-recorder=" + os.environ.pop("FASTPROF_FLIGHT_RECORDER")
    words = [sys.executable, "-m", "fastprof", "run", option, "--sample=200", str(script)]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline().strip() == str(process.pid)
        time.sleep(1.5)
        if how == "killed":
            process.kill()
            process.wait()
        command("dump", process.pid, "-o", tmp_path / "o.flight", "-o", tmp_path / "o.json")
        process.kill()
    table = read_dump(tmp_path / "o.flight")
    spent_s = dict.fromkeys(("spin", "hang"), 0.0)
    for i in range(len(table)):
        name = table.name(i).split(" ")[0]
        if name in spent_s:
            spent_s[name] += (int(table.end_ns[i]) - int(table.start_ns[i])) / 1e9
    assert spent_s["spin"] > 0.5 and spent_s["hang"] > 1, spent_s
    assert "hang (program.py" in command("report", tmp_path / "o.flight")
    assert any("spin" in name for name in fastprof.load(tmp_path / "o.json").names)
    if how == "killed":
        fastprof.flight_recorder.start(max_bytes=8 << 20, sample_hz=100)
        fastprof.flight_recorder.stop()
    assert len(list(folder.glob("*.samples"))) == len(records(folder))


def test_damaged_samples_of_a_dump_are_refused_or_read() -> None:
    code, node, thread = b"\1\0\0\0\x18\0\0\0\1\0\0\0\1\0\1\0fa", [-1, 0, 7, 0], [9, 0]
    records = code + bytes(24 - len(code)) + struct.pack("<IIiIiI", 2, 24, *node)
    records += struct.pack("<IIII", 3, 16, *thread)
    records += struct.pack("<IIqqIiII", 4, 40, 1000, 9000, 0, 0, 5, 3)
    whole = struct.pack("<QQd4Q", 0x31504D4153465046, 4096, 100.0, 1, len(records), 0, 0) + records

    def read(data: bytes) -> Any:
        return read_samples(base64.b64encode(zlib.compress(data)).decode())

    samples = read(whole)
    assert samples.codes == (("f", "a", 1),) and samples.threads == ((9, "thread 9"),)
    assert samples.count.tolist() == [5] and samples.line.tolist() == [7]
    chance, refused = random.Random(5), 0
    for _ in range(2000):
        damaged = bytearray(whole)
        damaged[chance.randrange(len(whole))] = chance.randrange(256)
        try:
            read(bytes(damaged[: chance.choice((None, -3))]))
        except errors.FormatError:
            refused += 1
    assert 1000 < refused < 2000


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
        (row,) = [json.loads(line) for line in command("ps", "--as-json").splitlines()]
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


def test_forked_processes_have_recorders_and_leave_nothing(folder: Path, tmp_path: Path) -> None:
    code = """
import multiprocessing, os, sys, time
from fastprof import flight_recorder, profile, record_function
def child(number):
    with record_function(f"child {number}"):
        return flight_recorder.is_running() and flight_recorder.status()["records"]
if __name__ == "__main__":
    with multiprocessing.get_context("fork").Pool(2) as pool:
        paths = set(pool.map(child, range(20)))
    assert all(paths) and flight_recorder.status()["records"] not in paths
    pid = os.fork()
    if not pid:
        with record_function("forked"):
            flight_recorder.dump(sys.argv[1])
            os._exit(3)
    assert os.waitpid(pid, 0)[1] >> 8 == 3
    with profile(follow_children=True, backing_file=sys.argv[1] + ".records") as prof:
        process = multiprocessing.get_context("fork").Process(target=child, args=(7,))
        process.start(); process.join()
    assert "child 7" in prof.event_table.names, prof.missing
    assert "flight recorder" in prof.missing["backing_file"]
"""
    done = python("-c", code, tmp_path / "forked.fastprof")
    assert done.returncode == 0, done.stderr
    assert "forked" in fastprof.load(tmp_path / "forked.fastprof").names
    assert records(folder) == [] and list(folder.glob("*.sock")) == []


@pytest.mark.parametrize("words", ["fork", "spawn", "forkserver", "forkserver fastprof"])
def test_workers_that_raise_or_are_killed(folder: Path, tmp_path: Path, words: str) -> None:
    """multiprocessing prints their exception without a hook; what killed ones leave outlives an orderly end."""
    script = tmp_path / "program.py"
    script.write_text("""
import multiprocessing, os, signal, sys
import fastprof
def work(how):
    with fastprof.record_function(how):
        if how == "raise":
            raise KeyError("in a worker")
        if how == "exit":
            try:
                raise KeyError("before an exit")
            except KeyError:
                sys.exit(3)
        if how == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
if __name__ == "__main__":
    context = multiprocessing.get_context(sys.argv[1])
    context.set_forkserver_preload(sys.argv[2:])  # the server has a recorder then, which its forks inherit
    workers = [context.Process(target=work, args=(how,)) for how in ("raise", "exit", "kill", "")]
    for each in workers:
        each.start()
    with context.Pool(2) as pool:  # whose workers end by SIGTERM
        pool.map(work, ["a", "b"])
    print([each.join() or each.exitcode for each in workers])
""")
    done = python(script, *words.split(), check=True)
    assert done.stdout == "[1, 3, -9, 0]\n"
    for error in ("in a worker", "before an exit"):
        assert f"fastprof: exception: KeyError: '{error}' in " in done.stderr
    assert len(list(tmp_path.glob("*.flight"))) == 2
    while len(records(folder)) > 1:  # the server ends after the program
        time.sleep(0.05)
    (left,) = records(folder)
    assert "kill" in fastprof.recover(left).names


def test_a_program_that_patches_how_workers_are_polled(folder: Path) -> None:
    code = """
import multiprocessing, os, signal
from fastprof import flight_recorder
from multiprocessing.popen_fork import Popen
ours = Popen.poll
flight_recorder.stop()
assert Popen.poll is not ours
Popen.poll = ours
flight_recorder.start()
worker = multiprocessing.get_context("fork").Process(target=lambda: os.kill(os.getpid(), signal.SIGKILL))
worker.start(), worker.join(), flight_recorder.stop()
print(worker.exitcode, Popen.poll is ours)
"""
    assert python("-c", code, check=True).stdout == "-9 True\n"
    assert len(records(folder)) == 1


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


def test_a_daemon_closes_all_descriptors(folder: Path, tmp_path: Path) -> None:
    code = """
import os, sys
from fastprof import flight_recorder, record_function
os.closerange(3, 256)
files = [open(sys.executable, "rb") for _ in range(40)]  # get the same numbers
for _ in range(200_000):
    with record_function("work"):
        pass
flight_recorder.dump(sys.argv[1])
flight_recorder.stop()
for file in files:
    assert len(file.read(4)) == 4
"""
    done = python("-c", code, tmp_path / "o.flight")
    assert done.returncode == 0, done.stderr
    table = read_dump(tmp_path / "o.flight")
    assert len(table) > 150_000 and not table.metadata["recovered"]["fallback_slabs"]
    assert records(folder) == []


def test_many_dumps_leave_nothing_behind(folder: Path, tmp_path: Path) -> None:
    code = """
import os, sys
from fastprof import flight_recorder, record_function
def facts():
    return len(os.listdir("/proc/self/fd")), len(os.listdir("/proc/self/task"))
def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGESIZE")
for number in range(1000):
    with record_function("work"):
        flight_recorder.dump(sys.argv[1])
    os.unlink(sys.argv[1])
    if number == 100:
        before, before_bytes = facts(), resident()
assert facts() == before, (facts(), before)
assert resident() < before_bytes + (4 << 20), (resident(), before_bytes)
"""
    done = python("-c", code, tmp_path / "again.flight")
    assert done.returncode == 0, done.stderr


def test_requests_are_bounded_and_can_be_turned_off(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import socket

    with program(STEPS, tmp_path / "never") as process:
        path = str(wait_for(folder, "*.sock"))
        for sent, said in (
            (b"x" * 70000 + b"\n", "at most"),
            (b"[]\n", "JSON object"),
            (b"nonsense\n", ""),
            (b'{"do": "answer"}\n', "no such request"),
            (b'{"do": "start", "options": {"on_trace_ready": "os.abort"}}\n', "invalid option"),
            (b'{"do": "profile", "path": "/x.json", "seconds": -1}\n', "above 0"),
            (
                b'{"do": "profile", "path": "/x.json", "steps": 10000000, "timeout_s": 0.2}\n',
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


def test_a_pid_that_is_used_again_is_another_process(folder: Path, tmp_path: Path) -> None:
    with program(BUSY, 1) as process:
        (source,) = records(folder)
        process.kill()
        process.wait()
    number, _, rest = source.name.split("-", 2)
    source.rename(folder / f"{os.getpid()}-1-{rest}")  # as if this process had its pid now
    (row,) = [json.loads(line) for line in command("ps", "--as-json").splitlines()]
    assert (row["pid"], row["state"]) == (os.getpid(), "ended")
    asked = python("-m", "fastprof", "profile", os.getpid(), "--seconds", 1)
    assert asked.returncode == 2
    command("dump", os.getpid(), "-o", tmp_path / f"{number}.flight")
    assert "inner 0" in fastprof.recover(tmp_path / f"{number}.flight").names
