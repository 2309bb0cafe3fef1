# SPDX-License-Identifier: Apache-2.0
"""profile(overflow="spill"): nothing is lost, no file is left, and no way to end the profile hangs."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

import fastprof
from fastprof import record_function

BOUND = 128 * 1024

PROGRAM = """
import os, resource, signal, sys, threading, time
import fastprof
from fastprof import record_function

def work(n):
    with record_function("outer"):
        for i in range(n):
            with record_function("inner", i=i):
                pass

def spill_files():
    found = []
    for fd in os.listdir("/proc/self/fd"):
        try:
            target = os.readlink("/proc/self/fd/" + fd)
        except OSError:
            continue
        if sys.argv[1] in target:
            found.append(target)
    return found

profile = fastprof.profile(overflow="spill", max_bytes=131072, spill_folder=sys.argv[1])
"""


def run(code: str, folder: Path, **options: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", PROGRAM + code, str(folder)],
        capture_output=True,
        text=True,
        timeout=60,
        **options,  # type: ignore[call-overload]
    )


def work(n: int) -> None:
    with record_function("outer"):
        for i in range(n):
            with record_function("inner", i=i):
                pass


def test_a_small_bound_keeps_everything(tmp_path: Path) -> None:
    with fastprof.profile(overflow="spill", max_bytes=BOUND, spill_folder=tmp_path) as profile:
        threads = [threading.Thread(target=work, args=(20_000,)) for _ in range(2)]
        for thread in threads:
            thread.start()
        work(20_000)
        for thread in threads:
            thread.join()
    table = profile.event_table
    assert len(table) == 3 * 20_001
    assert not any(table.dropped.values())
    inner = next(average for average in profile.key_averages() if average.key == "inner")
    assert inner.count == 60_000
    assert os.listdir(tmp_path) == []
    assert "spill" not in profile.missing


@pytest.mark.parametrize(
    ("overflow", "bound"),
    [("spill", BOUND), ("drop_newest", 1 << 20), ("overwrite_oldest", 1 << 20)],
)
def test_ranges_that_an_earlier_profile_left_open_take_no_room(overflow: str, bound: int) -> None:
    opened, ended = threading.Event(), threading.Event()

    def leave_open() -> None:
        for _ in range(20):  # each in a chunk of its own
            record_function("open").__enter__()
            work(2_000)
        opened.set()
        ended.wait()

    thread = threading.Thread(target=leave_open)
    try:
        with fastprof.profile():
            thread.start()
            opened.wait()
        with fastprof.profile(overflow=overflow, max_bytes=bound) as profile:
            work(5_000)
    finally:
        ended.set()
        thread.join()
    assert len(profile.event_table) == 5_001
    assert not any(profile.event_table.dropped.values())


def test_stacks_shapes_and_schedules_survive(tmp_path: Path) -> None:
    finished = []
    with fastprof.profile(
        overflow="spill",
        max_bytes=65536,
        spill_folder=tmp_path,
        with_stack=True,
        python_calls=False,
        profile_memory=True,
        record_shapes=True,
        schedule=fastprof.schedule(wait=1, warmup=1, active=2, repeat=2),
        on_trace_ready=lambda p: finished.append(len(p.event_table)),
    ) as profile:
        for _ in range(10):
            work(3_000)
            profile.step()
    assert finished == [2 * 3_002, 2 * 3_002]
    assert not any(profile.event_table.dropped.values())
    assert profile.event_table.coded["stack"].values


def test_a_folder_that_is_not_there_is_an_error() -> None:
    profile = fastprof.profile(overflow="spill", spill_folder="/no/such/folder")
    with pytest.raises(fastprof.errors.IoError, match=r"/no/such/folder.*option spill_folder\."):
        profile.start()
    with fastprof.profile() as after:
        work(10)
    assert len(after.event_table) == 11


def test_a_full_disk_is_told(tmp_path: Path) -> None:
    done = run(
        """
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 19, resource.RLIM_INFINITY))
with profile:
    work(100_000)
table = profile.event_table
print(len(table) + sum(table.dropped.values()), table.dropped["spill_failed"] > 0,
      table.dropped.get("bound", 0), profile.missing["spill"])
""",
        tmp_path,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("100001 True 0 the spill file could not be written (")
    assert "spill_failed" in done.stderr  # a warning


ENDINGS = {
    "exception": ("with profile:\n    work(50_000)\n    raise SystemExit(3)", 3),
    "exit while recording": ("profile.start()\nwork(50_000)", 0),
    "os._exit": ("profile.start()\nwork(50_000)\nos._exit(4)", 4),
    "killed": (
        "profile.start()\nwork(50_000)\nos.kill(os.getpid(), signal.SIGKILL)",
        -signal.SIGKILL,
    ),
}


@pytest.mark.parametrize("ending", list(ENDINGS))
def test_no_file_stays(tmp_path: Path, ending: str) -> None:
    code, expected = ENDINGS[ending]
    done = run(code, tmp_path)
    assert done.returncode == expected, done.stderr
    assert os.listdir(tmp_path) == []


@pytest.mark.usefixtures("sigint")
def test_ctrl_c_keeps_what_was_recorded(tmp_path: Path) -> None:
    code = """
try:
    with profile:
        work(1000)
        print("ready", flush=True)
        while True:
            work(1000)
except KeyboardInterrupt:
    print(len(profile.event_table) > 1000, sum(profile.event_table.dropped.values()), spill_files())
"""
    with subprocess.Popen(
        [sys.executable, "-c", PROGRAM + code, str(tmp_path)], stdout=subprocess.PIPE, text=True
    ) as program:
        assert program.stdout is not None
        assert program.stdout.readline() == "ready\n"
        program.send_signal(signal.SIGINT)
        try:
            output, _ = program.communicate(timeout=60)
        finally:
            program.kill()
    assert output == "True 0 []\n"
    assert os.listdir(tmp_path) == []


def test_a_forked_child_holds_no_file(tmp_path: Path) -> None:
    done = run(
        """
with profile:
    work(20_000)
    assert len(spill_files()) == 1
    child = os.fork()
    if child == 0:
        code = len(spill_files())
        with fastprof.profile(overflow="spill", max_bytes=131072) as own:
            work(20_000)
        os._exit(code if len(own.event_table) == 20_001 else 9)
    assert os.waitpid(child, 0)[1] == 0
    work(20_000)
print(len(profile.event_table), sum(profile.event_table.dropped.values()), spill_files())
""",
        tmp_path,
    )
    assert done.stdout == "40002 0 []\n", done.stderr
