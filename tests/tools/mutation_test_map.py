# SPDX-License-Identifier: Apache-2.0
"""TestMap: the unit tests that execute each line of the package, measured with coverage."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import sys
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from mutation_operators import Mutant, lines_of_functions, without_texts
from mutation_runs import run
from mutation_tree import PACKAGE, TREE, WORK

__all__ = ["TestMap", "limit_s"]

# Files of tests/python/integration that need neither a compiler nor a package; most test other processes.
IN_PROCESSES = (
    "test_call_life.py",
    "test_cli_html.py",
    "test_cli_options.py",
    "test_cli_run.py",
    "test_follow_children.py",
    "test_followed_life.py",
    "test_killed_trees.py",
    "test_process_life.py",
    "test_python_calls.py",
    "test_spill.py",
)
# Tests that read the sources instead of running them.
OF_SOURCES = ("test_fixed_numbers.py",)
MOST_FIRST = 8  # tests that a mutant is tried with before all others
MOST_FIRST_FILES = 2
UNIT = ["-m", "not integrations and not compilers", "-q", "-p", "no:cacheprovider"]


def _digest(*contents: bytes) -> str:
    found = hashlib.sha256()
    for content in contents:
        found.update(content)
    return found.hexdigest()[:16]


def _folder(path: Path, package: str, keep: bool) -> Path:
    """Return the folder for the results of a test file; `package`: digest of the package's sources."""
    folder = WORK / "map" / f"{path.stem}-{_digest(without_texts(path.read_bytes()))}"
    earlier = [found.parent for found in folder.glob("*/tests.json")]
    return earlier[0] if keep and earlier else folder / package


def _measure(path: Path, folder: Path) -> None:
    """Run a test file under coverage, unless its folder has the results. Called by several threads."""
    times = folder / "tests.json"
    if times.exists():
        return
    print(f"which lines does {path.name} run?", flush=True)
    for old in folder.parents[1].glob(f"{path.stem}-*"):
        shutil.rmtree(old)
    folder.mkdir(parents=True)
    settings = folder / "coveragerc"
    settings.write_text(
        "[run]\nparallel = true\nsource = fastprof\ncontext = ${PYTEST_CURRENT_TEST-}\n"
        f"data_file = {folder}/coverage\n"
    )
    test = path.relative_to(TREE).as_posix()
    coverage = [sys.executable, "-m", "coverage", "run", f"--rcfile={settings}", "-m", "pytest"]
    more = {"MUTANTS_TESTS": str(times), "COVERAGE_PROCESS_START": str(settings)}
    run([*coverage, test, *UNIT, "-p", "mutant_contexts"], 3600, **more)


class TestMap:
    """The tests that run each line, and the CPU time of each; kept on disk until the code of a test file changes.

    keep: use the results of earlier runs even if the package has changed since. Saves minutes, but lines may have
    moved.
    """

    def __init__(self, keep: bool = False) -> None:
        self.seconds: dict[str, float] = {}
        self.failing: set[str] = set()
        self.passing: set[str] = set()  # that were seen to pass where mutants are tried
        self.lines: dict[str, dict[int, set[str]]] = {}  # by file and line number
        sources = sorted((TREE / PACKAGE).rglob("*.py"))
        package = _digest(*(path.read_bytes() for path in sources))
        files = sorted((TREE / "tests/python/unit").glob("test_*.py"))
        files += [TREE / "tests/python/integration" / name for name in IN_PROCESSES]
        folders = {path: _folder(path, package, keep) for path in files}
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            list(pool.map(_measure, folders.keys(), folders.values()))
        for folder in folders.values():
            self._read(folder)
        self.known = self.seconds.keys() - self.failing
        # Number of lines that each test runs: a test that runs few lines is likely to test these.
        self.reach = dict.fromkeys(self.seconds, 0)
        for by_line in self.lines.values():
            for tests in by_line.values():
                for test in tests:
                    self.reach[test] += 1

    def _read(self, folder: Path) -> None:
        result: dict[str, Any] = json.loads((folder / "tests.json").read_text())
        self.seconds |= result["seconds"]
        self.failing |= set(result["failed"])
        for failing in result["failed"]:
            print(f"left out, since it fails under coverage or in a copy of the tree: {failing}")
        for part in folder.glob("coverage.*"):
            self._read_lines(part)

    def _read_lines(self, part: Path) -> None:
        from coverage import CoverageData
        from coverage.exceptions import DataError

        found = CoverageData(str(part))
        try:
            found.read()
        except DataError as error:  # of a process that was killed as it wrote
            print(f"left out: {error}")
            return
        for file in found.measured_files():
            by_line = self.lines.setdefault(PACKAGE + file.rpartition(PACKAGE)[2], {})
            for line, contexts in found.contexts_by_lineno(file).items():
                # In a process that a test starts, the context is PYTEST_CURRENT_TEST: "test (call)".
                names = {context.rsplit(" (", 1)[0] for context in contexts}
                by_line.setdefault(line, set()).update(names & self.seconds.keys())

    def of(self, mutant: Mutant, budget_s: float) -> list[list[str]]:
        """Return tests to try a mutant with, in groups: a few, and as many as take budget_s together.

        They are those that run the line. A line outside of functions is run by the import of the file, whichever test
        comes first, and any test can depend on what it defines: those that run functions of the file, and as many
        again of all others.
        """
        by_line = self.lines.get(mutant.path, {})
        inside = lines_of_functions((TREE / mutant.path).read_bytes())
        found = by_line.get(mutant.line, set()) & self.known if mutant.line in inside else ()
        if found:
            return self.in_groups(found, budget_s)
        near = {test for line in inside for test in by_line.get(line, ())} & self.known
        if not near:  # run where coverage does not reach: at the start of another process
            near = {test for test in self.known if any(name in test for name in IN_PROCESSES)}
        first = self._closest(near)
        others = self._quickest(self.known - near, budget_s)
        of_sources = [test for test in self.known if any(name in test for name in OF_SOURCES)]
        return [first, self._quickest(near - set(first), budget_s) + others, of_sources]

    def in_groups(self, tests: set[str], budget_s: float) -> list[list[str]]:
        """Return a few of the tests, and as many of the others as take budget_s together."""
        first = self._closest(tests)
        return [first, self._quickest(tests - set(first), budget_s)]

    def _closest(self, tests: Iterable[str]) -> list[str]:
        """The tests that run least of the package, of few files, since importing a file takes time, too."""
        chosen: list[str] = []
        for test in sorted(tests, key=lambda test: (self.reach[test], test)):
            files = {name.partition("::")[0] for name in [*chosen, test]}
            if (len(files) <= MOST_FIRST_FILES and self.seconds[test] < 1) or not chosen:
                chosen.append(test)
            if len(chosen) == MOST_FIRST:
                break
        return chosen

    def _quickest(self, tests: Iterable[str], budget_s: float) -> list[str]:
        chosen: list[str] = []
        for test in sorted(tests, key=lambda test: self.seconds[test]):
            budget_s -= self.seconds[test]
            if chosen and budget_s < 0:
                break
            chosen.append(test)
        return chosen


def limit_s(group: Sequence[str], tests: TestMap) -> float:
    return 10 + 3 * sum(tests.seconds[test] for test in group)
