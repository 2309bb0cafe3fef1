# SPDX-License-Identifier: Apache-2.0
"""Profiles that real samplers write, loaded and compared with the program's own clocks and the sampler's own totals.

The program spends three quarters of its time in `hot`, the rest in `cold`, in 80 turns of random length. With one
sample a turn, the share of `hot` would be off by more than 0.35 with a probability below 2 exp(-2 * 80 * 0.35^2)
< 1e-8 (Hoeffding's inequality); samplers take two and more.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from processes import python

import fastprof

pytestmark = pytest.mark.integrations

HOT_LINE, COLD_LINE = 5, 9
PROGRAM = """\
import random, time

def hot(end):
    while time.process_time() < end:
        pass  # 5

def cold(end):
    while time.process_time() < end:
        pass  # 9

for turn in range(80):
    length = random.uniform(0.02, 0.04)
    hot(time.process_time() + 3 * length / 4)
    cold(time.process_time() + length / 4)
"""
SCRIPT = """\
function spin(us) { const end = process.cpuUsage().user + us; while (process.cpuUsage().user < end); }
function hot(us) { spin(us); }
function cold(us) { spin(us); }
for (let turn = 0; turn < 80; turn++) {
  const us = 10000 + 10000 * Math.random();
  hot(3 * us / 4);
  cold(us / 4);
}
"""
# Most of its time is its own: perf does not see by frame pointers who called the C library's clock().
SOURCE = """\
#include <time.h>
#define SPIN(us) \\
  volatile long n = 0; \\
  for (clock_t end = clock() + (us); clock() < end;) \\
    for (int i = 0; i < 20000; i++) n = n + 1
__attribute__((noinline)) void hot(long us) { SPIN(us); }
__attribute__((noinline)) void cold(long us) { SPIN(us); }
int main() {
  for (int turn = 0; turn < 80; turn++) {
    long us = 10000 + turn * 7919 % 10000;
    hot(3 * us / 4);
    cold(us / 4);
  }
}
"""


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("program") / "turns.py"
    path.write_text(PROGRAM)
    return path


def run(*words: object) -> subprocess.CompletedProcess[str]:
    """Run a program, first of this interpreter's folder; skip if it is not there or may not observe processes."""
    name = str(words[0])
    beside = Path(sys.executable).with_name(name)
    found = str(beside) if beside.exists() else shutil.which(name)
    if found is None:
        pytest.skip(f"{name} is not installed")
    done = subprocess.run(
        [found, *map(str, words[1:])], capture_output=True, text=True, timeout=600
    )
    if done.returncode:
        if re.search(r"(?i)permi(ssion|tted)|paranoid|PERFMON|not supported", done.stderr):
            pytest.skip(f"{name} may not observe processes here")
        pytest.fail(f"{words}: {done.stdout[-4000:]}{done.stderr[-4000:]}")
    return done


def times(path: Path) -> Counter[str]:
    """Return the ns of each function in a file, with what it called."""
    table = fastprof.load(path)
    found: Counter[str] = Counter()
    for row in range(len(table)):
        site = table.sites[int(table.column("site")[row])]
        found[site.function or site.name] += int(table.end_ns[row] - table.start_ns[row])
    return found


def check(path: Path, own: Counter[str] | None = None, error_ns: float = 0) -> None:
    """Compare with the program, and with the file's own numbers: times of functions in ns."""
    found = times(path)
    assert found["hot"] / (found["hot"] + found["cold"]) == pytest.approx(0.75, abs=0.35)
    for name in ("hot", "cold") if own is not None else ():
        assert found[name] == pytest.approx(own[name], abs=error_ns) and own[name] > 0


def lines(path: Path) -> dict[str, set[int]]:
    sites = fastprof.load(path).sites
    return {
        name: {s.line for s in sites if s.function == name and s.file.endswith("turns.py")}
        for name in ("hot", "cold")
    }


def record(program: Path, path: Path, kind: str) -> Any:
    run("py-spy", "record", "-r", 100, "-f", kind, "-o", path, "--", sys.executable, program)
    return path.read_text() if kind == "raw" else json.loads(path.read_text())


def test_py_spy_raw(program: Path, tmp_path: Path) -> None:
    path = tmp_path / "raw.txt"
    own: Counter[str] = Counter()
    for line in record(program, path, "raw").splitlines():
        stack, _, number = line.rpartition(" ")
        own.update({name: int(number) for name in ("hot", "cold") if f"{name} (" in stack})
    check(path, own)
    found = lines(path)
    assert found["hot"] <= {HOT_LINE - 1, HOT_LINE} and found["cold"] <= {COLD_LINE - 1, COLD_LINE}
    assert all(found.values())


def test_py_spy_speedscope(program: Path, tmp_path: Path) -> None:
    path = tmp_path / "speedscope.json"
    trace = record(program, path, "speedscope")
    names = [frame["name"] for frame in trace["shared"]["frames"]]
    own: Counter[str] = Counter()
    for profile in trace["profiles"]:
        for stack, weight in zip(profile["samples"], profile["weights"], strict=True):
            own.update({names[each]: 1e9 * weight for each in stack})
    check(path, own, error_ns=1000)  # a ns a sample, in either direction
    samples = sum(len(profile["samples"]) for profile in trace["profiles"])
    assert fastprof.load(path).metadata["stack_samples"] == samples


def test_py_spy_chrome_trace(program: Path, tmp_path: Path) -> None:
    path = tmp_path / "trace.json"
    own: Counter[str] = Counter()
    for event in record(program, path, "chrometrace"):
        own[event["name"]] += 1000 * event["ts"] * {"B": -1, "E": 1}[event["ph"]]
    check(path, own)


@pytest.mark.parametrize("options", [[], ["-b"]], ids=["collapsed", "mojo"])
def test_austin(options: list[str], program: Path, tmp_path: Path) -> None:
    path = tmp_path / "austin"
    words = (*options, "-t", "60s", "-i", "10ms", "-o", path, sys.executable, program)
    done = run("austin", *words)
    check(path)
    own = re.search(
        r"Error rate.*?\d+/(\d+)", re.sub(r"\x1b\[[\d;]*m", "", done.stderr + done.stdout)
    )
    assert own, done.stderr
    assert fastprof.load(path).metadata["stack_samples"] == int(own[1])


def test_pyinstrument(tmp_path: Path) -> None:
    """Its speedscope file and its own JSON of one session agree. (The former leaves out calls below 1 %.)"""
    pytest.importorskip("pyinstrument")
    once, program = (
        PROGRAM.replace("range(80)", "range(1)").replace("0.02, 0.04", "1, 1.2"),
        tmp_path / "turns.py",
    )
    program.write_text(once)
    session, path = tmp_path / "session.pyisession", tmp_path / "speedscope.json"
    python("-m", "pyinstrument", "-r", "pyisession", "-o", session, program, check=True)
    python("-m", "pyinstrument", "--load", session, "-r", "speedscope", "-o", path, check=True)
    other = tmp_path / "other.json"
    python("-m", "pyinstrument", "--load", session, "-r", "json", "-o", other, check=True)
    own: Counter[str] = Counter()
    pending = [json.loads(other.read_text())["root_frame"]]
    while pending:
        frame = pending.pop()
        own[frame["function"]] += 1e9 * frame["time"]
        pending += frame["children"]
    check(path, own, error_ns=1e5)  # the JSON's times have six decimals
    for refused in (session, other):
        with pytest.raises(fastprof.errors.FormatError, match="--renderer speedscope"):
            fastprof.load(refused)


def test_memray(tmp_path: Path) -> None:
    """Bytes, as memray counts them, of a function that keeps 32 MiB."""
    pytest.importorskip("memray")
    program, found, path = (tmp_path / name for name in ("p.py", "found.bin", "speedscope.json"))
    program.write_text("def hoard():\n    return bytearray(32 << 20)\nkept = hoard()\n")
    python("-m", "memray", "run", "-o", found, program, check=True)
    python("-m", "memray", "transform", "speedscope", "-o", path, found, check=True)
    assert times(path)["hoard"] >= 32 << 20
    with pytest.raises(fastprof.errors.FormatError, match="memray transform"):
        fastprof.load(found)


def test_node(tmp_path: Path) -> None:
    script, path = tmp_path / "turns.js", tmp_path / "turns.cpuprofile"
    script.write_text(SCRIPT)
    run("node", "--cpu-prof", "--cpu-prof-dir", tmp_path, "--cpu-prof-name", path.name, script)
    check(path)
    samples = json.loads(path.read_text())["samples"]
    assert fastprof.load(path).metadata["stack_samples"] == len(samples)
    places = {(s.function, s.file, s.line) for s in fastprof.load(path).sites}
    assert {("hot", str(script), 2), ("cold", str(script), 3)} <= places


def test_perf(tmp_path: Path) -> None:
    """perf's samples as `perf script` prints them, and `perf script report stackcollapse`: as many as perf counts."""
    source, program, data = tmp_path / "turns.c", tmp_path / "turns", tmp_path / "perf.data"
    source.write_text(SOURCE)
    run("gcc", "-O1", "-fno-omit-frame-pointer", source, "-o", program)
    done = run("perf", "record", "-F", 499, "-g", "-e", "cpu-clock", "-o", data, program)
    own = re.search(r"\((\d+) samples\)", done.stderr)
    text = tmp_path / "perf.txt"
    text.write_text(run("perf", "script", "--header", "-i", data).stdout)
    check(text)
    assert own and fastprof.load(text).metadata["stack_samples"] == int(own[1])
    path = tmp_path / "collapsed.txt"
    path.write_text(run("perf", "script", "report", "stackcollapse", "-i", data).stdout)
    if not path.stat().st_size:
        pytest.skip("perf has no stackcollapse script")
    check(path)
    assert times(path)["turns"] == int(own[1])
