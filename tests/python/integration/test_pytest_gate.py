# SPDX-License-Identifier: Apache-2.0
"""`pytest --fastprof`: what is measured, compared and failed, and that it costs nothing when it is not asked for."""

from __future__ import annotations

import json
from importlib.metadata import entry_points
from pathlib import Path

import numpy as np
import pytest
from processes import python

from fastprof.analysis.growth import growth_of

# An installation that is older than the entry point has the module only.
KNOWN = any(each.name == "fastprof" for each in entry_points(group="pytest11"))
PLUGIN = [] if KNOWN else ["-p", "fastprof.integrations.pytest_plugin"]
SUITE = """
import os, sys, time
import pytest

ORDER = []

@pytest.fixture(scope="module")
def whole():
    ORDER.append("module begins")
    yield
    ORDER.append("module ends")

@pytest.fixture
def fresh(tmp_path):
    (tmp_path / "made").mkdir()
    yield tmp_path
    (tmp_path / "made").rmdir()

def waits():
    time.sleep(float(os.environ["WAIT_S"]))

@pytest.mark.fastprof(rounds=6, max_growth=200)
def test_marked(whole, fresh, capsys):
    ORDER.append("marked")
    waits()

def test_plain(whole):
    assert ORDER[0] == "module begins" and ORDER.count("module begins") == 1
    assert "plain" not in ORDER or "--fastprof-all" in sys.argv
    ORDER.append("plain")

def test_nothing_is_loaded():
    if not any(word.startswith("--fastprof") for word in sys.argv):
        assert not [name for name in sys.modules if name == "numpy" or name.startswith("fastprof._core")]
"""


def run(folder: Path, *words: str, wait_s: float = 0.01, suite: str = SUITE) -> tuple[int, str]:
    (folder / "test_suite.py").write_text(suite)
    (folder / "pytest.ini").write_text(
        "[pytest]\naddopts = -ra --strict-markers -p no:cacheprovider -p no:randomly\n"
    )
    done = python("-m", "pytest", *PLUGIN, *words, cwd=folder, WAIT_S=str(wait_s))
    return done.returncode, done.stdout + done.stderr


def test_without_the_option_tests_run_as_ever(tmp_path: Path) -> None:
    code, said = run(tmp_path)
    assert code == 0 and "3 passed" in said and "= fastprof =" not in said
    assert not (tmp_path / "fastprof-baseline.json").exists()


def test_a_slower_test_fails_and_says_what_grew(tmp_path: Path) -> None:
    # A busy machine makes waits longer by tens of ms, in one run more than in another.
    before_s, after_s = 0.1, 1.0
    code, said = run(tmp_path, "--fastprof", wait_s=before_s)
    assert code == 0 and "1 test not compared: no baseline" in said
    for _ in range(2):
        code, said = run(tmp_path, "--fastprof", "--fastprof-update", wait_s=before_s)
        assert code == 0 and "3 passed" in said and "1 test added to" in said
    (runs,) = json.loads((tmp_path / "fastprof-baseline.json").read_text())["machines"].values()
    assert [len(each["rounds_ns"]) for each in runs["test_suite.py::test_marked"]] == [6, 6]
    code, said = run(tmp_path, "--fastprof", wait_s=before_s)
    assert code == 0 and "not compared" not in said and "SLOWER" not in said
    # Names are those of any checkout; baselines with names of one folder are still read.
    path = tmp_path / "fastprof-baseline.json"
    names = path.read_text()
    assert '"test_suite.py: waits"' in names and str(tmp_path) not in names
    path.write_text(names.replace("test_suite.py: ", f"{tmp_path}/test_suite.py: "))
    code, said = run(tmp_path, "--fastprof", wait_s=after_s)
    assert code == 1 and "1 failed, 2 passed" in said and "test_marked  SLOWER" in said
    assert "200 % are allowed" in said and "sleep" in said.partition("What grew")[2]
    code, said = run(tmp_path, "--fastprof", "--fastprof-update", wait_s=after_s)
    assert code == 0 and "3 passed" in said


def test_every_test_in_another_file(tmp_path: Path) -> None:
    words = ["--fastprof-all", "--fastprof-rounds", "5", "--fastprof-baseline", "all.json"]
    code, said = run(tmp_path, *words, "--fastprof-update")
    assert code == 0 and "3 passed" in said and "3 tests added to" in said
    code, said = run(tmp_path, *words, "--fastprof-max-growth", "100000")
    assert code == 0 and "not compared" not in said
    for words in ([], ["--fastprof-update"]):
        code, said = run(tmp_path, "--fastprof", "-k", "plain", *words)
        assert code == 0 and "no test was measured" in said and "added to" not in said


ODD = """
import sys
import pytest

@pytest.mark.filterwarnings("error")
def test_with_another_profiler():
    sys.setprofile(print)
    sys.setprofile(None)

def test_plain():
    '>>> test_plain()'

class TestMethods:
    used = False

    def test_has_an_object_of_its_own(self):
        assert not self.used
        self.used = True
"""


def test_doctests_run_once_objects_are_fresh_and_warnings_fail_nothing(tmp_path: Path) -> None:
    code, said = run(
        tmp_path, "--fastprof-all", "--fastprof-update", "--doctest-modules", suite=ODD
    )
    assert code == 0 and "4 passed" in said and "3 tests added to" in said


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["--fastprof", "--fastprof-rounds", "2"], "at least 5 are needed"),
        (["--fastprof", "--fastprof-max-growth", "nan"], "--fastprof-max-growth nan: a number of"),
        (["--fastprof-all", "--fastprof-max-growth", "inf"], "--fastprof-max-growth inf: a number"),
        (["--fastprof", "--fastprof-max-growth", "-1"], "--fastprof-max-growth -1.0: a number"),
        (["--fastprof", "--fastprof-update", "--fastprof-baseline", "no/x.json"], "ERROR: cannot"),
        (
            ["--fastprof", "--fastprof-baseline", "pytest.ini"],
            "not a baseline of pytest --fastprof",
        ),
    ],
)
def test_options_that_do_not_fit(tmp_path: Path, words: list[str], why: str) -> None:
    code, said = run(tmp_path, *words)
    assert code == 4 and why in said


def test_a_baseline_that_is_not_written_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "base").mkdir()
    suite = "import os\ndef test_it(): os.path.exists('base') and os.rmdir('base')\n"
    words = ["--fastprof-all", "--fastprof-update", "--fastprof-baseline", "base/x.json"]
    code, said = run(tmp_path, *words, suite=suite)
    assert code == 1 and f"ERROR: cannot write {tmp_path}/base/x.json: No such file" in said
    assert "Traceback" not in said and "added to" not in said


@pytest.mark.parametrize(
    ("words", "why"),
    [
        ("max_growth='abc'", ": max_growth='abc': a number of percent is needed"),
        ("rounds=2", ": rounds=2: at least 5 are needed"),
        ("max_grwth=20", " has max_growth=PERCENT and rounds=N only, not max_grwth=."),
        ("20", " has max_growth=PERCENT and rounds=N only, not 20."),
    ],
)
def test_a_mark_that_does_not_fit(tmp_path: Path, words: str, why: str) -> None:
    suite = f"import pytest\n@pytest.mark.fastprof({words})\ndef test_it(): pass\n"
    code, said = run(tmp_path, "--fastprof", suite=suite)
    assert code == 4 and f"ERROR: test_suite.py::test_it: @pytest.mark.fastprof{why}" in said


@pytest.mark.parametrize(("earlier", "between"), [(1, 0.02), (2, 0.02), (5, 0.02), (5, 0.05)])
def test_noise_between_runs_is_no_growth(earlier: int, between: float) -> None:
    """100 comparisons of equal programs raise no alarm beyond 10 %; 30 % more is found where runs differ by 2 %."""
    draw = np.random.default_rng(earlier)

    def a_run(factor: float = 1.0) -> list[int]:
        level = 1e6 * factor * (1 + between * draw.standard_normal())
        return [int(level * (1 + 0.03 * abs(draw.standard_normal()))) for _ in range(20)]

    alarms, found = 0, 0
    for _ in range(100):
        runs = [a_run() for _ in range(earlier)]
        alarms += growth_of(runs, a_run()).low > 1.1
        found += growth_of(runs, a_run(1.3)).low > 1.1
    assert alarms == 0 and (found >= 95 or between > 0.02)
