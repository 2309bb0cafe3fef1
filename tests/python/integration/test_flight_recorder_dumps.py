# SPDX-License-Identifier: Apache-2.0
"""Dumps of running, hanging and killed programs: every record and sample, no torn one, whoever has the pid now."""

from __future__ import annotations

import base64
import os
import random
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
from recorder_programs import STEPS, command, listed, program, records

import fastprof
from fastprof import errors
from fastprof.decode.sample_file import read_samples
from fastprof.flight_recorder.dumps import read_dump, write_dump

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
        (row,) = listed()
        assert row["state"] == "ended" and row["command"] == f"-c {threads}"
        for words in (("profile", process.pid, "--seconds", 1), ("live", "--once", process.pid)):
            said = python("-m", "fastprof", *words).stderr
            assert f"has ended: `fastprof dump {process.pid}` reads its records" in said
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
    recovered = command("recover", tmp_path / "o.flight", "-o", tmp_path / "all.json")
    assert "hang (program.py" in recovered and "samples: " not in recovered
    assert any("spin" in name for name in fastprof.load(tmp_path / "all.json").names)
    assert any("spin" in name for name in fastprof.load(tmp_path / "o.json").names)
    data = bytearray((tmp_path / "o.flight").read_bytes())
    at = data.rindex(b"samples\0") + len(b"samples\0")
    data[at : at + 4] = b"!!!!"
    (tmp_path / "damaged.flight").write_bytes(data)
    said = command("report", tmp_path / "damaged.flight")
    assert "samples of this dump are damaged" in said and "spin" not in said
    said = command("recover", tmp_path / "damaged.flight")
    assert "samples of this dump are damaged" in said and "backing file" in said
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


def test_a_pid_that_is_used_again_is_another_process(folder: Path, tmp_path: Path) -> None:
    with program(BUSY, 1) as process:
        (source,) = records(folder)
        process.kill()
        process.wait()
    number, _, rest = source.name.split("-", 2)
    source.rename(folder / f"{os.getpid()}-1-{rest}")  # as if this process had its pid now
    (row,) = listed()
    assert (row["pid"], row["state"]) == (os.getpid(), "ended")
    asked = python("-m", "fastprof", "profile", os.getpid(), "--seconds", 1)
    assert asked.returncode == 2
    command("dump", os.getpid(), "-o", tmp_path / f"{number}.flight")
    assert "inner 0" in fastprof.recover(tmp_path / f"{number}.flight").names
