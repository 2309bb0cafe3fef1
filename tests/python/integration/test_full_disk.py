# SPDX-License-Identifier: Apache-2.0
"""A file system without room, while recorders and profiles write to it: programs go on, and are told what is lost."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from processes import python

import fastprof

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="mounts a tmpfs of Linux")

# What every program begins with. fill() leaves not a page.
BEGIN = """
import os, sys, time
import fastprof
from fastprof import flight_recorder, profile, record_function
folder = sys.argv[1]
def fill():
    file = os.open(folder + "/filler", os.O_WRONLY | os.O_CREAT)
    try:
        while True:
            os.write(file, b"x" * 4096)
    except OSError:
        os.close(file)
def work(rounds, name="work"):
    for number in range(rounds):
        with record_function(name.format(number)):
            pass
def refused(call):
    try:
        call()
    except fastprof.errors.IoError as error:
        return str(error)
"""


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 16 MB, in memory: a store to a mapped page that it has no room for raises SIGBUS."""
    path = tmp_path / "disk"
    path.mkdir()
    words = ["mount", "-t", "tmpfs", "-o", "size=16m,mode=700", "none", str(path)]
    if subprocess.run(words, capture_output=True).returncode != 0:
        pytest.skip("mounting a tmpfs is not permitted")
    yield path
    subprocess.run(["umount", "-l", str(path)], check=True)


def ended(disk: Path, code: str, **environment: object) -> str:
    """Return what a program printed, which must end with status 7."""
    done = python("-c", f"{BEGIN}{code}\nsys.exit(7)", disk, **environment)
    assert done.returncode == 7, done.stderr
    return done.stdout + done.stderr


def test_a_recorder_whose_folder_fills_up(disk: Path, tmp_path: Path) -> None:
    code = """
flight_recorder.start(max_bytes=32 << 20)
work(100_000)
fill()
work(3_000_000)
work(100_000, "name {}")
assert "had no room" in flight_recorder.status()["missing"]["backing_file"]
flight_recorder.dump(sys.argv[2] + "/o.flight")
"""
    said = ended(
        disk, code.replace("sys.argv[2]", repr(str(tmp_path))), FASTPROF_PROCESS_FOLDER=disk / "p"
    )
    assert "lay in anonymous memory instead; choose a folder with more room" in said
    assert fastprof.recover(tmp_path / "o.flight").metadata["recovered"]["fallback_slabs"] > 0
    report = python("-m", "fastprof", "report", tmp_path / "o.flight", check=True).stdout
    assert "blocks of 2 MB for which the file had no room; make room" in report
    assert list((disk / "p").iterdir()) == []


def test_a_recorder_without_any_room(disk: Path) -> None:
    code = """
fill()
flight_recorder.start(sample_hz=100, aggregate=True)
work(1000)
print(refused(lambda: flight_recorder.dump()))
print(sorted(flight_recorder.status()["missing"]))
"""
    said = ended(disk, code, FASTPROF_PROCESS_FOLDER=disk / "p")
    assert "no records to copy: no room for the backing file" in said
    assert "set to a folder that has room" in said
    assert "['backing_file', 'sample_hz']" in said
    assert "stacks are not sampled: cannot write" in said


def test_dumps_and_aggregates_into_a_full_folder(disk: Path, folder: Path) -> None:
    code = """
flight_recorder.start(max_bytes=8 << 20, dump_folder=folder + "/d", aggregate=folder + "/a", max_step_s=0.01)
fill()
work(1000)
print(refused(lambda: flight_recorder.dump()))
flight_recorder.step()
time.sleep(0.05)
flight_recorder.step()
assert flight_recorder.status()["suppressed"] == {"slow step": 1}
while "aggregate" not in flight_recorder.status()["missing"]:
    time.sleep(0.05)
print(flight_recorder.status()["missing"]["aggregate"])
os.unlink(folder + "/filler")
print(flight_recorder.dump())
"""
    said = ended(disk, code, FASTPROF_FLIGHT_RECORDER="")
    assert said.count("No space left on device; choose another path, or make room") == 2
    assert "slow step: no dump was written" in said and "free space, or export" in said
    (dump,) = (disk / "d").iterdir()
    assert "work" in fastprof.recover(dump).names
    assert [path.name.split(".")[-1] for path in (disk / "a").iterdir()] == ["aggregates"]


@pytest.mark.parametrize("option", ["spill", "backing_file"])
def test_a_profile_whose_folder_fills_up(disk: Path, option: str) -> None:
    options = {
        "spill": 'overflow="spill", spill_folder=folder, max_bytes=4 << 20',
        "backing_file": 'backing_file=folder + "/b"',
    }[option]
    code = f"""
with profile({options}) as prof:
    work(300_000)
    fill()
    work(700_000)
print(prof.missing)
assert len(prof.event_table) + sum(prof.event_table.dropped.values()) == 1_000_000
"""
    said = ended(disk, code)
    assert "(No space left on device)" in said and f"'{option}'" in said and "choose a" in said


@pytest.mark.parametrize(
    "how",
    [
        "mount -t tmpfs -o size=64m none /dev/shm",  # as containers have it
        "mount -t tmpfs none /dev/shm && mount -o remount,ro /dev/shm",
        "mount -t tmpfs none /dev/shm && mkdir -m 700 /dev/shm/fastprof-0 && chown 1 /dev/shm/fastprof-0",
        "mount -t tmpfs none /dev/shm && touch /dev/shm/fastprof-0",
        "mount --bind /tmp /dev/shm",  # no memory
    ],
)
def test_where_memory_has_no_folder_for_records(disk: Path, tmp_path: Path, how: str) -> None:
    program = (
        f"{BEGIN}\nflight_recorder.start()\nwork(9)\nprint(flight_recorder.status()['records'])"
    )
    words = ["unshare", "-m", "sh", "-c", f'{how} && exec "$0" -c "$1" .', sys.executable, program]
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    done = subprocess.run(words, capture_output=True, text=True, timeout=600, env=environment)
    assert done.returncode == 0 and done.stderr == ""
    assert done.stdout.startswith(f"{tmp_path}/fastprof-")
