# SPDX-License-Identifier: Apache-2.0
"""--backing-file of `run` and `explain --live`: what a killed program recorded is read by `fastprof recover`."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from processes import python

import fastprof

PROGRAM = """
import os, signal, sys, fastprof
os.mkdir("left"); os.chdir("left")
def work():
    with fastprof.record_function("done"): pass
work()
"""
KILL = "os.kill(os.getpid(), signal.SIGKILL)"
POOL = """
if __name__ == "__main__":
    import multiprocessing
    pool = multiprocessing.get_context("fork").Pool(1)
    pool.apply(work)
    os.kill(os.getpid(), signal.SIGKILL)
"""


def fastprof_(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return python("-m", "fastprof", *words, cwd=folder)


def ended(folder: Path, end: str, *words: str) -> subprocess.CompletedProcess[str]:
    (folder / "p.py").write_text(PROGRAM + end + "\n")
    return fastprof_(folder, *words, "--backing-file", "records", "p.py")


@pytest.mark.parametrize(
    "words",
    [
        ["run"],
        ["run", "--html"],
        ["run", "--no-trace", "--this-thread"],
        ["run", "--record-shapes", "--python-memory", "--with-stack"],
        ["explain", "--live"],
    ],
    ids=" ".join,
)
def test_a_killed_program_is_recovered(tmp_path: Path, words: list[str]) -> None:
    assert ended(tmp_path, KILL, *words).returncode == -9
    assert {p.name for p in tmp_path.iterdir()} == {"p.py", "left", "records"}
    found = fastprof_(tmp_path, "recover", "-o", "t.json", "records")
    assert found.returncode == 0 and "open" in found.stdout, found.stderr
    table = fastprof.load(tmp_path / "t.json")
    assert {"p.py", "done"} <= {table.name(row) for row in range(len(table))}
    assert fastprof_(tmp_path, "explain", "t.json").returncode == 0


def test_processes_that_were_followed_are_recovered_with_it(tmp_path: Path) -> None:
    assert ended(tmp_path, POOL, "run", "--follow").returncode == -9
    table = fastprof.recover(tmp_path / "records")
    folder = Path(table.metadata["recovered"]["metadata"]["children"])
    try:
        own, worker = table.metadata["processes"]
        assert worker["parent_pid"] == own["pid"]
        done = [row for row in range(len(table)) if table.name(row) == "done"]
        pids = [table.tracks[table.column("track")[row]].pid for row in done]
        assert pids == [own["pid"], worker["pid"]]
        found = fastprof_(tmp_path, "recover", "records")
        assert found.returncode == 0 and "backing file of 2 processes" in found.stdout
        assert f"remove {folder}" in found.stdout
        # Another session than the file's own is that of one process.
        assert fastprof_(tmp_path, "recover", "--session", "77", "records").returncode == 2
    finally:
        for file in folder.iterdir():
            file.unlink()
        folder.rmdir()
    (done,) = {table.name(row) for row in done}
    assert "processes" not in fastprof.recover(tmp_path / "records").metadata


# While the main thread is inside C, where no function of Python can answer. kill -9: for a test that fails.
TERM_SOON = (
    "import hashlib, subprocess\n"
    "command = f'sleep 1; kill {os.getpid()}; sleep 100; kill -9 {os.getpid()}'\n"
    "subprocess.Popen(['sh', '-c', command], stdin=-3, stdout=-3, stderr=-3)\n"
)


@pytest.mark.parametrize(
    ("end", "code", "stays"),
    [
        ("", 0, False),
        ("1 / 0", 1, False),
        ("sys.exit(3)", 3, False),
        ("os.kill(os.getpid(), signal.SIGTERM); signal.pause()", -15, False),
        ("pid = os.fork()\nif pid: os.waitpid(pid, 0)\nwork()", 0, False),
        ("os.unlink('../records')", 0, False),
        (TERM_SOON + "hashlib.pbkdf2_hmac('sha256', b'', b'', 10**9)", -15, False),
        (TERM_SOON + "sum(range(10**12))", -15, True),  # keeps the GIL: nothing can be written
        ("os._exit(4)", 4, True),
        ("os.execv(sys.executable, [sys.executable, '-c', ''])", 0, True),
    ],
)
def test_the_file_is_there_for_what_is_not_written(
    tmp_path: Path, end: str, code: int, stays: bool
) -> None:
    done = ended(tmp_path, end, "run", "--no-calls")
    assert done.returncode == code, done.stderr
    assert (tmp_path / "records").exists() is stays
    assert (tmp_path / "p.trace.json").exists() is not stays
    read = fastprof.recover if stays else fastprof.load
    table = read(tmp_path / ("records" if stays else "p.trace.json"))
    count = 2 if "fork" in end else 1  # a forked child's records are not its parent's
    assert [table.name(row) for row in range(len(table))].count("done") == count


def test_the_file_stays_if_the_trace_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    done = ended(tmp_path, "os.rmdir('../out')", "run", "-o", "out/t.json")
    assert done.returncode == 1 and f"fastprof recover -o trace.json {tmp_path}" in done.stderr
    assert len(fastprof.recover(tmp_path / "records")) > 1


def test_calls_that_are_not_in_the_file_are_told(tmp_path: Path) -> None:
    many = "def often(): pass\nfor n in range(100_000): often()\n" + KILL
    assert ended(tmp_path, many, "run").returncode == -9
    assert (
        "calls: of functions called very often" in fastprof_(tmp_path, "recover", "records").stdout
    )


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--backing-file", "there"], "the file exists"),
        (["--backing-file", "absent/records"], "No such file"),
        (["--backing-file", "."], "the file exists"),
        (["--backing-file", "records", "--overflow", "spill"], "spill"),
    ],
)
def test_a_file_that_cannot_be_made_is_an_error_before_the_program_runs(
    tmp_path: Path, words: list[str], message: str
) -> None:
    (tmp_path / "there").write_text("mine")
    for command in (["run"], ["explain", "--live"]):
        done = fastprof_(tmp_path, *command, *words, "-c", "print('runs')")
        assert (done.returncode, done.stdout) == (2, "") and message in done.stderr
        assert "Traceback" not in done.stderr and (tmp_path / "there").read_text() == "mine"
    assert {p.name for p in tmp_path.iterdir()} == {"there"}


def test_samples_that_were_lost_are_named(tmp_path: Path) -> None:
    ended(tmp_path, KILL, "run", "--sample")
    for command in ("recover", "report"):
        said = fastprof_(tmp_path, command, "records").stdout
        assert "Not recorded: samples: they are in the process's memory until stop()" in said
