# SPDX-License-Identifier: Apache-2.0
"""The examples of docs/always_on.md: a slow server, and a training that is killed or hangs, explained from files."""

from __future__ import annotations

import itertools
import re
import subprocess
import sys
from pathlib import Path

import pytest
from processes import python
from recorder_programs import command, records

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="backing files are read on Linux")

EXAMPLES = Path(__file__).resolve().parents[3] / "examples"


def test_a_server_that_was_slow_once(folder: Path, tmp_path: Path) -> None:
    said = python(
        EXAMPLES / "always_on_server.py", check=True, FASTPROF_FLIGHT_RECORDER="", TMPDIR=tmp_path
    ).stderr
    dumps = re.findall(r"slow step: step (\d+) took .*: fastprof report (\S+)", said)
    text = command("explain", dict(dumps)["40"])
    assert "dumped: slow step: step 40 took" in text
    assert re.search(r"ProfilerStep#40 took .*reload prices", text)


def test_a_training_that_is_killed(folder: Path, tmp_path: Path) -> None:
    done = python(EXAMPLES / "always_on_training.py", "killed", FASTPROF_FLIGHT_RECORDER="")
    assert done.returncode == -9
    command("dump", done.stdout.strip(), "-o", tmp_path / "killed.flight")
    (left,) = records(folder)
    for how, file in itertools.product(("report", "explain"), (tmp_path / "killed.flight", left)):
        text = command(how, file)
        assert re.search(r"open at the end, .*: ProfilerStep#60 > save a checkpoint\n", text)


def test_a_training_that_hangs(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FASTPROF_FLIGHT_RECORDER", "")
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    words = [sys.executable, str(EXAMPLES / "always_on_training.py"), "hangs"]
    with subprocess.Popen(words, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        while not (
            found := re.search(
                r"hang: .*: fastprof report (\S+)", line := process.stderr.readline()
            )
        ):
            assert line
        process.kill()
    text = command("explain", found[1])
    assert "dumped: hang: no step for" in text
    assert re.search(r"MainThread .* in save \(\S*always_on_training.py:\d+\)", text)
    assert re.search(r"open at the end, .*: ProfilerStep#60 > save a checkpoint\n", text)
