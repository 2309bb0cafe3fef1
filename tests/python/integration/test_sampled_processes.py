# SPDX-License-Identifier: Apache-2.0
"""Samples of followed processes, also of killed ones."""

import json
import shutil
import signal
import sys
from pathlib import Path

import pytest
from processes import python

import fastprof

FOLLOWED = """
import json, multiprocessing, os, signal, subprocess, sys, time
import fastprof

def spin():
    until = time.thread_time() + 0.3
    while time.thread_time() < until:
        pass

def in_worker():
    spin()

def in_killed():
    spin()
    os.kill(os.getpid(), signal.SIGKILL)

if __name__ == "__main__" and sys.argv[1] == "program":
    in_worker()
elif __name__ == "__main__":
    context = multiprocessing.get_context(sys.argv[1])
    with fastprof.profile(sample_hz=1000, follow_children=True) as prof:
        children = [context.Process(target=f, name=f.__name__) for f in (in_worker, in_killed)]
        for child in children:
            child.start()
        subprocess.run([sys.executable, __file__, "program"], check=True)
        for child in children:
            child.join()
    samples = prof.samples()
    prof.export(sys.argv[2])
    table = prof.event_table
    places = {  # of rows of samples, by process
        table.tracks[track].pid: name
        for track, name in zip(table.column("track").tolist(), map(table.name, range(len(table))))
        if "in_killed" in name or "in_worker" in name
    }
    print(json.dumps([
        {share.name: share.total for share in samples.shares(mode="cpu")},
        {share.name: share.own for share in samples.shares("thread", mode="cpu")},
        [child.pid for child in children], places, prof.missing,
    ]))
"""


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_followed_processes_are_sampled(tmp_path, method):
    """Three processes that burn 0.3 s each, one of which is killed, and one of which executes a program."""
    program = tmp_path / "program.py"
    program.write_text(FOLLOWED)
    done = python(program, method, tmp_path / "all.json")
    assert done.returncode == 0, done.stderr
    functions, threads, pids, places, missing = json.loads(done.stdout)
    if "sample_hz" in missing:
        pytest.skip(missing["sample_hz"])
    assert not missing.get("follow_children"), missing
    assert functions["in_killed"] > 30 and functions["in_worker"] > 60, functions
    for pid, name in zip(pids, ("in_worker", "in_killed"), strict=True):
        (thread,) = (each for each in threads if each.endswith(f"({name} {pid})"))
        assert threads[thread] > 30
        assert name in places[str(pid)]
    assert len(places) == 3
    loaded = fastprof.load(tmp_path / "all.json")
    assert any("in_killed" in each for each in loaded.names)


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_samples_of_followed_processes_outlive_kills(tmp_path, method):
    """Parent and child burn CPU time until both are killed: what the child's shard left has its samples."""
    program = tmp_path / "program.py"
    program.write_text(
        FOLLOWED.partition("if __name__")[0]
        + """
def in_child(turns):
    spin()
    turns.value = 1
    while True:
        spin()

if __name__ == "__main__":
    context = multiprocessing.get_context(sys.argv[1])
    turns = context.Value("i", 0)
    prof = fastprof.profile(sample_hz=1000, follow_children=True, backing_file=sys.argv[2])
    prof.start()
    child = context.Process(target=in_child, args=(turns,), name="killed")
    child.start()
    while not turns.value and "sample_hz" not in prof.missing:
        spin()
    print(json.dumps([child.pid, prof.missing]), flush=True)
    os.kill(child.pid, signal.SIGKILL)
    os.kill(os.getpid(), signal.SIGKILL)
"""
    )
    done = python(program, method, tmp_path / "records")
    assert done.returncode == -signal.SIGKILL, done.stderr
    pid, missing = json.loads(done.stdout)
    if "sample_hz" in missing:
        pytest.skip(missing["sample_hz"])
    table = fastprof.recover(tmp_path / "records")
    folder = table.metadata["recovered"]["metadata"]["children"]
    try:
        assert any("in its memory" in problem for problem in table.metadata["problems"])
        for words in (["recover", tmp_path / "records"], ["report", folder]):
            printed = python("-m", "fastprof", *words).stdout
            assert "spin (program.py" in printed, printed
        for shard in Path(folder).glob("*.shard"):  # as if its flight recorder had the records
            shard.rename(f"{shard}.samples.name").write_text("killed")
        Path(folder, "foreign.shard.samples.name").touch()
        alone = fastprof.recover(folder)
        assert pid in {track.pid for track in alone.tracks} and "in_child" in str(alone.names)
        assert "(folder of 1 process)" in python("-m", "fastprof", "recover", folder).stdout
    finally:
        shutil.rmtree(folder)
    rows = [row for row in range(len(table)) if table.name(row).startswith("in_child (")]
    assert {table.tracks[table.column("track")[row]].pid for row in rows} == {pid}
    assert sum(int(table.end_ns[row] - table.start_ns[row]) for row in rows) > 30_000_000
    assert table.t0_ns <= min(table.start_ns) and table.t1_ns >= max(table.start_ns)


THREADS = """
import json, multiprocessing, sys, threading, time
import fastprof

def burn():
    until = time.thread_time() + 0.1
    while time.thread_time() < until:
        pass

def renamed():
    threading.current_thread().name = "second name"
    burn()

def work():
    threads = [threading.Thread(target=burn, name="ends"), threading.Thread(target=renamed, name="first name")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

if __name__ == "__main__":
    context = multiprocessing.get_context(sys.argv[1])
    with fastprof.profile(sample_hz=1000, follow_children=True) as prof:
        child = context.Process(target=work, name="worker")
        child.start()
        work()
        child.join()
    for path in sys.argv[2:]:
        prof.export(path)
    print(json.dumps([child.pid, [s.name for s in prof.samples().shares("thread")], prof.missing]))
"""


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_names_of_threads_that_have_ended(tmp_path, method):
    """Threads that are gone at stop(), of both processes, have the names of `threading` in tables and all files.

    CPython 3.10 does not say that a thread ends, so that a name which it got later is not seen.
    """
    program = tmp_path / "program.py"
    program.write_text(THREADS)
    paths = [tmp_path / f"all.{suffix}" for suffix in ("json", "pftrace", "gecko.json", "fastprof")]
    speedscope = tmp_path / "all.speedscope.json"
    done = python(program, method, *paths, speedscope)
    assert done.returncode == 0, done.stderr
    pid, names, missing = json.loads(done.stdout)
    if "sample_hz" in missing:
        pytest.skip(missing["sample_hz"])
    named = {f"{name} (worker {pid})" for name in ("MainThread", "ends")}
    last, earlier = (
        ("first name", "second name")
        if sys.version_info < (3, 11)
        else ("second name", "first name")
    )
    named |= {"MainThread", "ends", last}
    assert named <= {*names} and earlier not in names
    for path in paths:
        assert named <= {track.name for track in fastprof.load(path).tracks}, path
    shown = json.loads(speedscope.read_text())["profiles"]
    assert named <= {profile["name"] for profile in shown}


def test_processes_with_a_flight_recorder(tmp_path):
    """The recorder has the records of an executed program, and its samples are in the profile all the same."""
    program = tmp_path / "program.py"
    program.write_text(FOLLOWED)
    done = python(program, "spawn", tmp_path / "all.json", FASTPROF_FLIGHT_RECORDER="1")
    assert done.returncode == 0, done.stderr
    functions, threads, _, places, missing = json.loads(done.stdout)
    if "sample_hz" in missing:
        pytest.skip(missing["sample_hz"])
    assert "the flight recorder's file has the records" in missing["follow_children"]
    assert functions["in_killed"] > 30 and functions["in_worker"] > 60, (functions, missing)
    assert len(places) == 3 and any("(program.py " in each for each in threads), threads
