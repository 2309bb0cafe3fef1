# SPDX-License-Identifier: Apache-2.0
"""`--html` and `--open` of run, report, diff and recover, as processes, with other options."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from report_reader import read_report

import fastprof

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
    return subprocess.run(
        [sys.executable, "-m", "fastprof", *words],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, **environment},
    )


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
    for words in (("-o", "absent/r.html"), ("--html", "-o", "absent/t.json")):
        result = fastprof_(folder, "run", *words, "s.py")
        assert (result.returncode, result.stdout) == (2, "")
        assert "does not exist. Create it" in result.stderr
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


def test_a_report_of_a_file(folder: Path) -> None:
    assert fastprof_(folder, "run", "--no-calls", "-o", "t.trace.json", "s.py").returncode == 0
    for words in (["t.trace.json", "--html"], ["--html", "t.trace.json"]):
        result = fastprof_(folder, "report", *words)
        assert result.returncode == 0, result.stderr
        assert "wrote t.html" in result.stdout and "work" in result.stdout
        data = read_report(folder / "t.html")
        assert sorted(data.names()) == ["s.py", "work", "work"]
        (folder / "t.html").unlink()
    result = fastprof_(folder, "report", "t.trace.json", "--html", "x.html", "--csv", "x.csv")
    assert result.returncode == 0 and {"x.html", "x.csv"} <= files(folder)
    before = (folder / "t.trace.json").read_bytes()
    for words, message in (
        (["t.trace.json", "--html", "t.trace.json"], "Use a path that ends in .html"),
        (["--html"], "no trace to read"),
        (["--html", "x.html"], "no trace to read"),
        ([], "no trace to read"),
        (["t.trace.json", "--html", "absent/x.html"], "does not exist. Create it"),
    ):
        result = fastprof_(folder, "report", *words)
        assert (result.returncode, result.stdout) == (2, "") and message in result.stderr
    assert (folder / "t.trace.json").read_bytes() == before
    with open(folder / "t.trace.json") as trace:
        result = subprocess.run(
            [sys.executable, "-m", "fastprof", "report", "-", "--html"],
            cwd=folder, stdin=trace, capture_output=True, text=True, timeout=120,
        )  # fmt: skip
    assert "wrote report.html" in result.stdout


def test_a_conversion(folder: Path) -> None:
    assert fastprof_(folder, "run", "-o", "t.fastprof", "s.py").returncode == 0
    result = fastprof_(folder, "convert", "t.fastprof", "t.html")
    assert result.returncode == 0, result.stderr
    assert "work" in read_report(folder / "t.html").names()


def test_two_files(folder: Path) -> None:
    for name in ("a.json", "b.fastprof"):
        assert fastprof_(folder, "run", "-o", name, "s.py").returncode == 0
    result = fastprof_(folder, "diff", "a.json", "b.fastprof", "--html")
    assert result.returncode == 0, result.stderr
    assert "wrote diff.html" in result.stdout
    after, before = read_report(folder / "diff.html"), read_report(folder / "diff.html", "b")
    assert (before.head["title"], after.head["title"]) == ("a.json", "b.fastprof")
    result = fastprof_(folder, "diff", "a.json", "b.fastprof", "--html", "d.json")
    assert result.returncode == 2 and not (folder / "d.json").exists()


def test_a_trace_of_other_processes(folder: Path) -> None:
    (folder / "parent.py").write_text(
        "import subprocess, sys, fastprof\n"
        "with fastprof.record_function('parent'):\n"
        "    subprocess.run([sys.executable, 's.py'], check=True, timeout=60)\n"
    )
    result = fastprof_(folder, "run", "--follow", "--html", "parent.py")
    assert result.returncode == 0, result.stderr
    data = read_report(folder / "parent.html")
    pids = {lane["pid"] for lane in data.head["lanes"]}
    assert len(pids) == 2 and {str(pid) for pid in pids} <= set(data.head["processes"])
    assert data.head["flows"] == 1
    assert {"parent", "work"} <= set(data.names())


def test_a_killed_process(folder: Path) -> None:
    (folder / "killed.py").write_text(
        "import fastprof, os, signal\n"
        "prof = fastprof.profile(backing_file='records'); prof.start()\n"
        "with fastprof.record_function('last words'):\n"
        "    os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    subprocess.run([sys.executable, "killed.py"], cwd=folder, timeout=60, check=False)
    result = fastprof_(folder, "recover", "records", "--html")
    assert result.returncode == 0, result.stderr
    data = read_report(folder / "records.html")
    assert data.names() == ["last words"]
    assert any("not stopped" in note for note in data.head["notes"])


def test_import_does_not_load_the_report(folder: Path) -> None:
    code = (
        "import sys, fastprof\n"
        "with fastprof.profile() as p:\n"
        "    with fastprof.record_function('x'): pass\n"
        "print(p.key_averages().table())\n"
        "print([m for m in sys.modules if m.startswith('fastprof.report')])\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout.endswith("[]\n")
    assert fastprof.__version__
