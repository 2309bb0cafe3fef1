# SPDX-License-Identifier: Apache-2.0
"""`--html` and `--open` of run, report, diff and recover, as processes, with other options."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from processes import python
from report_reader import read_report

SCRIPT = """
import fastprof, threading
def work():
    with fastprof.record_function("work", number=1):
        sum(range(100))
thread = threading.Thread(target=work, name="other thread")
thread.start(); work(); thread.join()
print("done")
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "s.py").write_text(SCRIPT)
    return tmp_path


def fastprof_(folder: Path, *words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return python("-m", "fastprof", *words, cwd=folder, **environment)


def files(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()} - {"s.py", "__pycache__"}


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (["--html"], {"s.html"}),
        (["--html", "-o", "t.json"], {"s.html", "t.json"}),
        (["-o", "page.html"], {"page.html"}),
        (["--html", "-o", "page.html"], {"page.html"}),
        (["--html", "--no-trace"], {"s.html"}),
        (["--html", "--no-table", "--no-source"], {"s.html"}),
        (["--html", "--calls"], {"s.html"}),
        (["--html", "--calls", "--min-duration", "50"], {"s.html"}),
        (["--html", "--follow"], {"s.html"}),
        (["--html", "--this-thread", "--record-shapes", "--profile-memory"], {"s.html"}),
        (["--html", "--with-stack", "-o", "t.pftrace"], {"s.html", "t.pftrace"}),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_a_run_writes_a_page(folder: Path, options: list[str], expected: set[str]) -> None:
    result = fastprof_(folder, "run", *options, "s.py")
    assert (result.returncode, result.stdout) == (0, "done\n"), result.stderr
    assert files(folder) == expected
    page = next(folder / name for name in expected if name.endswith(".html"))
    assert f"wrote {page}; open it in a browser" in result.stderr
    data = read_report(page)
    assert "work" in data.names() and data.head["title"] == "s.py"
    assert data.head["facts"]["Python"] and data.head["facts"]["processor"]
    embedded = data.text("sources")
    named = "--no-source" not in options  # calls are recorded by default
    assert (embedded is not None and str(folder / "s.py") in embedded) == named


def test_a_page_that_cannot_be_written(folder: Path) -> None:
    (folder / "s.html").mkdir()
    result = fastprof_(folder, "run", "--html", "s.py")
    assert (result.returncode, result.stdout) == (2, "") and "it is a folder" in result.stderr
    (folder / "v.py").write_text("import os\nos.rmdir('gone')\n" + SCRIPT)
    (folder / "gone").mkdir()
    result = fastprof_(folder, "run", "-o", "gone/r.html", "v.py")
    assert result.returncode == 1
    kept = result.stderr.partition("kept the recording in ")[2].partition(";")[0]
    assert "work" in read_report(Path(kept)).names()


def test_it_is_opened_in_the_browser(folder: Path) -> None:
    browser = folder / "browser.sh"
    browser.write_text(f'#!/bin/sh\necho "$1" > {folder}/opened\n')
    browser.chmod(0o755)
    result = fastprof_(folder, "run", "--open", "s.py", BROWSER=str(browser))
    assert result.returncode == 0, result.stderr
    assert (folder / "opened").read_text().strip() == (folder / "s.html").as_uri()
    result = fastprof_(folder, "run", "--open", "s.py", BROWSER="/bin/false", PATH="")
    assert result.returncode == 0 and "no browser found" in result.stderr


def test_a_killed_process(folder: Path) -> None:
    (folder / "killed.py").write_text(
        "import fastprof, os, signal\n"
        "prof = fastprof.profile(backing_file='records'); prof.start()\n"
        "with fastprof.record_function('last words'):\n"
        "    os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    python("killed.py", cwd=folder)
    result = fastprof_(folder, "recover", "records", "--html")
    assert result.returncode == 0, result.stderr
    data = read_report(folder / "records.html")
    assert data.names() == ["last words"]
    assert any("not stopped" in note for note in data.head["notes"])
