# SPDX-License-Identifier: Apache-2.0
"""Programs that close stdout and stderr: traces are written, exit codes kept."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from processes import python

import fastprof

CLOSED = "import sys; sys.stdout.close(); sys.stderr.close()\n"


@pytest.mark.parametrize(("end", "code"), [("", 0), ("sys.exit(5)", 5), ("1 / 0", 1)])
def test_run(end: str, code: int, tmp_path: Path) -> None:
    path = tmp_path / "t.json"
    program = CLOSED + "import fastprof\nwith fastprof.record_function('r'): pass\n" + end
    assert python("-m", "fastprof", "run", "-o", path, "-c", program).returncode == code
    assert "r" in [e.name for e in fastprof.load(path).events()]


@pytest.mark.skipif(sys.platform != "linux", reason="/dev/full is Linux's")
@pytest.mark.parametrize("stdout", ["&-", "/dev/full"])
def test_commands_that_cannot_print(stdout: str, tmp_path: Path) -> None:
    path = tmp_path / "t.json"
    fastprof.EventTable(
        {"start_ns": [1], "end_ns": [2], "site": [0]}, sites=[fastprof.Site("a")]
    ).export(path)
    words = ["sh", "-c", f'exec "$0" -m fastprof report "$1" >{stdout}', sys.executable, str(path)]
    done = subprocess.run(words, stderr=subprocess.PIPE, text=True, timeout=600)
    assert done.returncode == 1 and len(done.stderr.splitlines()) == 1
    assert "error: cannot write to stdout: " in done.stderr


def test_files_are_written_though_nobody_reads_what_is_printed(tmp_path: Path) -> None:
    fastprof.EventTable(
        {"start_ns": [1], "end_ns": [2], "site": [0]}, sites=[fastprof.Site("a")]
    ).export(tmp_path / "t.json")
    record = "import sys, fastprof\nfastprof.profile(backing_file=sys.argv[1], keep_backing_file=True).start()"
    python("-c", record, tmp_path / "records", check=True)
    for words, outputs in (
        ("report t.json --csv 1.csv --json 1.json --html=1.html", "1.csv 1.json 1.html"),
        ("diff t.json t.json --json 2.json --html=2.html", "2.json 2.html"),
        ("recover records -o 3.json -o 3.csv --html=3.html", "3.json 3.csv 3.html"),
    ):
        reader, writer = os.pipe()
        os.close(reader)
        command = [sys.executable, "-u", "-m", "fastprof", *words.split()]
        done = subprocess.run(command, stdout=writer, cwd=tmp_path, timeout=600)
        os.close(writer)
        assert done.returncode == 1
        assert all((tmp_path / name).stat().st_size for name in outputs.split()), words


def test_a_profile_that_has_something_to_report(tmp_path: Path) -> None:
    """A warning of stop(), and the error of a handler at exit, have no stream to go to."""
    path = tmp_path / "t.json"
    program = CLOSED + (
        "import threading, fastprof\n"
        "class Nameless(threading.Thread):\n"
        "    name = property(lambda self: 1 / 0, lambda self, value: None)\n"
        "over = threading.Event()\n"
        "Nameless(target=over.wait, daemon=True).start()\n"
        "def ready(p): p.export_chrome_trace(sys.argv[1]); raise OSError\n"
        "fastprof.profile(on_trace_ready=ready).start()\n"
        "with fastprof.record_function('r'): pass\n"
    )
    python("-c", program, path, check=True)
    assert [e.name for e in fastprof.load(path).events()] == ["r"]
