# SPDX-License-Identifier: Apache-2.0
"""Flight recorders of programs that fork, start workers that fail or are killed, or close all descriptors."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import pytest
from processes import python
from recorder_programs import records

import fastprof
from fastprof.flight_recorder.dumps import read_dump

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="backing files are read on Linux")


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
