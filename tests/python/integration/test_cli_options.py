# SPDX-License-Identifier: Apache-2.0
"""Wrong options and outputs that cannot be written, each command in its own process with a time limit."""

from __future__ import annotations

import gzip
import resource
import subprocess
import sys
from pathlib import Path

import pytest

import fastprof

TIMEOUT_S = 120
SCRIPT = """
import sys, fastprof
with fastprof.record_function("work", size=3):
    with fastprof.record_function("inner"): pass
fastprof.report_memory_usage(1, 64, 64, 0)
print(sys.argv[1:])
"""


def fastprof_(
    folder: Path, *args: str | Path, stdin: bytes = b"", **more: object
) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [sys.executable, "-m", "fastprof", *map(str, args)],
        cwd=folder,
        input=stdin,
        capture_output=True,
        timeout=TIMEOUT_S,
        check=False,
        **more,  # type: ignore[call-overload]
    )


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "s.py").write_text(SCRIPT)
    return tmp_path


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("run", "--sort", "count", "s.py"), "did you mean --sort-by?"),
        (("run", "--record-shape", "s.py"), "did you mean --record-shapes?"),
        (("report", "--row-limits", "3", "x"), "did you mean --row-limit?"),
        (("rnu", "s.py"), "did you mean run?"),
        (("s.py",), "fastprof run s.py"),
        (("run", "--to", "perfeto", "s.py"), "did you mean perfetto?"),
        (("run", "-o", ".", "--to", "chrome", "s.py"), "it is a folder"),
        (("run", "-o", "t.jsn", "s.py"), "did you mean .json? Use"),
        (("run", "-o", f"{'n' * 251}.json", "s.py"), "File name too long. Use a shorter one"),
        (("dump", "4711", "--seconds", "nan"), "invalid --seconds nan. Use a number above 0"),
        (("profile", "4711", "--seconds", "inf"), "invalid --seconds inf. Use a number above 0"),
        (("attach", "4711", "--seconds", "1e30"), "invalid --seconds 1e+30. Use a number above 0"),
        (("diff", "a.json", "b.json", "--min-ms", "nan"), "Use a number of milliseconds"),
        (("run", "-o", "m.memory.html", "s.py"), "--profile-memory"),
        (("report", "t.json", "--max-memory-mb", "0"), "Use a whole number above 0"),
        (("diff", "a.json", "b.json", "--max-growth", "x"), "Use a number of percent"),
        (("live", "4711", "--once"), "stand before the process"),
        (("run",), "Add a SCRIPT"),
        (("run", "-m"), "Add a SCRIPT"),
        (("run", "--sort-by", "self_cpu", "s.py"), "did you mean self_cpu_time_total?"),
        (("run", "-o", "absent/t.json", "s.py"), "does not exist. Create it"),
        (("run", "--counter", "beauty", "s.py"), "beauty"),
        (("report", "t.json", "--csv", "absent/x.csv"), "does not exist. Create it"),
        (("convert", "t.json", "absent/x.json"), "does not exist. Create it"),
        (("diff", "-", "-"), "both - (standard input)"),
        (("run", "--flight-recorder", "-o", "t.json", "--follow", "s.py"), "without --follow, -o."),
        (("run", "--flight-recorder=hang=60", "s.py"), "did you mean hang_s?"),
        (("run", "--flight-recorder=on_exception=maybe", "s.py"), "Use true or false"),
        (("run", "--flight-recorder=dump_folder=/proc/1e5", "s.py"), "Choose another dump_folder"),
        (("run", "--no-trace", "-o", "x.json", "s.py"), "-o is about the trace"),
        (("run", "--to", "perfetto", "--html", "s.py"), "Add -o PATH, or leave --to out"),
        (("run", "--min-duration", "-1", "s.py"), "invalid --min-duration -1."),
        (("run", "--sample=0", "--sample-mode", "cpu", "s.py"), "invalid --sample=0."),
        (("attach", "4711", "--sample=nan"), "invalid --sample=nan."),
        (("ranks", ".", "--max-growth", "1"), "Add --before"),
        (("ranks", ".", "-o", "t.json", "--html", "t.html"), "two answers"),
    ],
)
def test_wrong_usage_ends_with_2_before_the_program_runs(
    folder: Path, words: tuple[str, ...], message: str
) -> None:
    result = fastprof_(folder, *words)
    assert (result.returncode, result.stdout) == (2, b"")
    assert message in result.stderr.decode() and b"Traceback" not in result.stderr
    assert sorted(path.name for path in folder.iterdir()) == ["s.py"]


def test_a_working_folder_that_was_removed(folder: Path) -> None:
    command = f"{sys.executable} -m fastprof"
    script = f'mkdir gone; cd gone; rmdir ../gone; {command} run "$@" {folder}/s.py'
    for words, code in (([], 2), (["-o", f"{folder}/t.json"], 0), (["--no-trace"], 0)):
        done = subprocess.run(
            ["sh", "-c", script, "sh", *words], cwd=folder, stderr=subprocess.PIPE
        )
        assert done.returncode == code and b"Traceback" not in done.stderr
        assert (b"the working folder was removed" in done.stderr) == (code == 2)
    assert len(fastprof.load(folder / "t.json").events())


def test_exits_at_once(folder: Path) -> None:
    (folder / "help.py").write_text("import argparse\nargparse.ArgumentParser().parse_args()\n")
    before = sorted(folder.iterdir())
    for words in (("help.py", "--help"), ("-c", "raise SystemExit(3)")):
        plain = subprocess.run(
            [sys.executable, *words], cwd=folder, capture_output=True, timeout=TIMEOUT_S
        )
        result = fastprof_(folder, "run", "-o", "t.json", *words)
        assert result.returncode == plain.returncode
        assert (result.stdout, result.stderr) == (plain.stdout, plain.stderr)
    result = fastprof_(
        folder, "run", "--no-trace", "-c", "def work(): pass\nwork(); raise SystemExit(0)"
    )
    assert result.returncode == 0 and b"work" in result.stderr  # however fast: it has done its work
    assert sorted(folder.iterdir()) == before


def kept_file(stderr: bytes) -> Path:
    line = next(x for x in stderr.decode().splitlines() if "kept the recording in" in x)
    return Path(line.partition("kept the recording in ")[2].partition(";")[0])


@pytest.mark.parametrize(
    "name", ["t.json", "t.pftrace", "t.fastprof", "t.folded", "t.json.gz", f"{'n' * 250}.json"]
)
def test_a_folder_that_vanishes_loses_nothing(folder: Path, name: str) -> None:
    (folder / "gone").mkdir()
    (folder / "v.py").write_text("import os\nos.rmdir('gone')\n" + SCRIPT)
    result = fastprof_(folder, "run", "-o", f"gone/{name}", "v.py")
    assert result.returncode == 1 and b"error" in result.stderr
    path = kept_file(result.stderr)
    assert path.parent == folder and path.stat().st_size > 0
    if "folded" not in name:
        assert "work" in fastprof.load(path).names


def test_a_full_disk_loses_nothing(folder: Path) -> None:
    """Files are limited to 64 KB: the JSON does not fit, fastprof's own format does."""
    (folder / "many.py").write_text(
        "import fastprof\nfor i in range(1000):\n    with fastprof.record_function('x'): pass\n"
    )

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 16, 1 << 16))

    result = fastprof_(folder, "run", "--no-calls", "-o", "t.json", "many.py", preexec_fn=limit)
    assert result.returncode == 1 and b"File too large" in result.stderr
    path = kept_file(result.stderr)
    assert path.suffix == ".fastprof" and len(fastprof.load(path)) == 1001


def test_pipes_and_a_program_without_stderr(folder: Path) -> None:
    result = fastprof_(folder, "run", "--no-table", "-o", "/dev/stdout", "--to", "folded", "s.py")
    assert result.returncode == 0 and b";work;inner " in result.stdout, result.stderr
    result = fastprof_(folder, "run", "--no-trace", "-c", "import sys; sys.stderr = None")
    assert (result.returncode, result.stdout) == (0, b"")


def test_memory_format_without_memory_records_keeps_the_recording(folder: Path) -> None:
    (folder / "r.py").write_text("import fastprof\nwith fastprof.record_function('work'): pass\n")
    result = fastprof_(folder, "run", "--profile-memory", "-o", "m.memory.html", "r.py")
    assert result.returncode == 1
    assert "work" in fastprof.load(kept_file(result.stderr)).names


def test_standard_input_and_limits_of_reading(folder: Path) -> None:
    assert fastprof_(folder, "run", "-o", "t.fastprof", "s.py").returncode == 0
    data = (folder / "t.fastprof").read_bytes()
    for stdin in (data, gzip.compress(data)):
        result = fastprof_(folder, "report", "-", stdin=stdin)
        assert result.returncode == 0 and b"on 1 thread in" in result.stdout
    assert fastprof_(folder, "diff", "-", "t.fastprof", stdin=data).returncode == 0
    assert fastprof_(folder, "convert", "-", "o.json", stdin=data).returncode == 0
    assert "work" in fastprof.load(folder / "o.json").names
    bomb = gzip.compress(b'{"a":[' + b"[]," * 20_000_000 + b'[]],"traceEvents":[]}')
    result = fastprof_(folder, "report", "--max-memory-mb", "64", "-", stdin=bomb)
    assert result.returncode == 2 and b"max-memory-mb" in result.stderr
