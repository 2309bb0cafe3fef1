# SPDX-License-Identifier: Apache-2.0
"""Mutation tests: puts small faults into the sources one at a time, and shows those that no unit test notices.

    python tests/tools/mutants.py --count 60 --seed 3      python/fastprof against tests/python/unit
    python tests/tools/mutants.py --only record/,shards    those of some files
    python tests/tools/mutants.py --cpp --count 30         public headers against tests/cpp/unit, csrc/core against both
    python tests/tools/mutants.py --again                  those that survived before, after tests were added

Mutants are put into a copy of the tree in build/mutants, in a virtual environment of their own: the import hook of an
editable install would hide the copy. Running each test file once under coverage finds the tests that execute each line.
A mutant is tried with those tests until one fails or takes three times its CPU time: first a few that execute little
else, then the others, quickest first. A mutant that no test notices is printed, unless equivalent_mutants.txt lists it
with the reason why it cannot be noticed. Requires the package coverage (extra `mutants`) and, for C++, gcov. Takes 1 to
5 seconds of CPU time a mutant (C++: 10), so CI does not run it. What tests run is measured once, which takes minutes;
--cpp builds with ccache where CMAKE_CXX_COMPILER_LAUNCHER=ccache says so.

A faulty program can do anything to the machine: better not run this as root. For root, /dev is made read-only; files
that remove or replace other files are left out in any case.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import importlib
import importlib.metadata
import importlib.util
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
import venv
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from mutation_operators import (
    Edit,
    changes_python,
    lines_of_functions,
    python_edits,
    without_texts,
)
from test_house_rules import repository_files

ROOT = Path(__file__).resolve().parents[2]
WORK = ROOT / "build" / "mutants"
TREE = WORK / "tree"
ENVIRONMENT = WORK / "environment"
NATIVE = "MUTANTS_NATIVE"  # environment variable: the native module
FAILED = WORK / "failed.json"
SURVIVED = {False: WORK / "survived.txt", True: WORK / "survived_cpp.txt"}  # by --cpp, for --again
LISTED = Path(__file__).resolve().parent / "equivalent_mutants.txt"
PACKAGE = "python/fastprof"
# Folders that only tests/python/integration tests, because they work with packages that the unit tests do not need.
ELSEWHERE = (
    "python/fastprof/integrations/",
    "python/fastprof/adapters/torch/",
    "python/fastprof/adapters/trio_tasks.py",
    "python/fastprof/cli/torch_check.py",
)
# A fault in these can remove or replace files that no test made, such as the device that a test writes to.
HARMFUL = (
    "python/fastprof/exporters/atomic_file.py",
    "csrc/include/fastprof/export/trace_file.hpp",
)
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
STALLED_S = 60  # wall time without any CPU time, more than a test sleeps
MOST_FIRST = 8  # tests that a mutant is tried with before all others
MOST_FIRST_FILES = 2
CONFIRM_LIMIT_S = 300  # for a test that failed with a mutant, run again without
UNIT = ["-m", "not integrations and not compilers", "-q", "-p", "no:cacheprovider"]


HERE = str(Path(__file__).resolve().parent)
_written = int(time.time())


class Mutant(NamedTuple):
    path: str
    edit: Edit
    line: int
    shown: str


class Outcome(NamedTuple):
    noticed: list[Mutant]
    survived: list[Mutant]
    listed: list[Mutant]


def equivalent() -> set[str]:
    """The mutants that equivalent_mutants.txt lists: `path: old => new` at the beginning of a line."""
    lines = LISTED.read_text().splitlines() if LISTED.exists() else []
    return {line for line in lines if line and line[0] not in "# "}


def copy_tree() -> None:
    """Copy all files of the repository, and the native module with the libraries beside it, into TREE."""
    shutil.rmtree(TREE, ignore_errors=True)
    for path in repository_files(ROOT):
        target = TREE / path.relative_to(ROOT)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(path, target)
    for library in Path(os.environ[NATIVE]).parent.glob("*.so"):
        shutil.copy2(library, TREE / PACKAGE)
    where = subprocess.run(
        [sys.executable, "-c", "import fastprof; print(fastprof.__file__)"],
        capture_output=True, text=True, check=True,
    ).stdout  # fmt: skip
    if not where.startswith(str(TREE)):
        raise SystemExit(f"mutants of {TREE} would not be tried: fastprof is imported from {where}")


def enter_environment() -> None:
    """Restart the program in a virtual environment with this one's packages that imports fastprof from the copy."""
    if Path(sys.prefix) == ENVIRONMENT:
        return
    native = importlib.util.find_spec("fastprof._core")
    if native is None or native.origin is None:
        raise SystemExit("fastprof is not built: run make build")
    venv.EnvBuilder(clear=True, symlinks=True).create(ENVIRONMENT)
    (site,) = ENVIRONMENT.glob("lib/python*/site-packages")
    # In folders that a .pth file names, .pth files and the import hooks that they install are not looked at.
    folders = [
        TREE / "python",
        TREE / "tests/tools",
        *(p for p in sys.path if p.endswith("site-packages")),
    ]
    in_children = "import os; 'COVERAGE_PROCESS_START' in os.environ and __import__('coverage').process_startup()"
    (site / "mutants.pth").write_text("".join(f"{line}\n" for line in [*folders, in_children]))
    python = ENVIRONMENT / "bin" / "python"
    os.execve(python, [str(python), *sys.argv], {**os.environ, NATIVE: native.origin})


def run(command: list[str], limit_s: float, **environment: str) -> int | None:
    """Return the exit status of a command run in the copy; None if it exceeded limit_s and its group was killed."""
    process = subprocess.Popen(
        command,
        cwd=TREE,
        env={
            **os.environ,
            "PYTHONPATH": f"{TREE}/python:{TREE}/tests/tools",
        }
        | environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        return wait_for(process.pid, limit_s)
    finally:
        # Reaped already: Popen must not wait for the number, which may be another process's by now.
        process.returncode = 0


def wait_for(leader: int, limit_s: float) -> int | None:
    """Wait for a child that leads a session, then end the session. Return its exit code; None if it took too long.

    limit_s: of CPU time, so that a busy machine makes nothing fail. A session that uses none for as long, and
    STALLED_S more, has stalled.
    """
    status = None
    used, used_at = 0.0, time.monotonic()
    looked_at = used_at
    while status is None:
        done, found = os.waitpid(leader, os.WNOHANG)
        now = time.monotonic()
        if done:
            status = os.waitstatus_to_exitcode(found)
        elif now - looked_at < 1:
            time.sleep(0.02)
        else:
            looked_at = now
            cpu_s = session_cpu_s(leader)
            if cpu_s != used:
                used, used_at = cpu_s, now
            if cpu_s > limit_s or now - used_at > STALLED_S + limit_s:
                break
    with contextlib.suppress(ProcessLookupError):
        os.killpg(leader, signal.SIGKILL)
    if status is None:
        os.waitpid(leader, 0)
    return status


def session_cpu_s(leader: int) -> float:
    """CPU time of the processes of a session, and of those that they have waited for, in seconds."""
    ticks = 0
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            fields = path.read_text().rpartition(")")[2].split()
            if int(fields[3]) == leader:  # the session; then utime, stime, cutime and cstime
                ticks += sum(map(int, fields[11:15]))
    return ticks / os.sysconf("SC_CLK_TCK")


def preload() -> None:
    """Import what every run of tests needs, so that a process that begins as a copy of this one has it.

    hypothesis takes three quarters of the time of a short run otherwise, whether or not a test uses it.
    """
    for name in ("numpy", "pytest", "hypothesis.strategies", "hypothesis.internal.entropy"):
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
    for entry in importlib.metadata.entry_points(group="pytest11"):
        with contextlib.suppress(Exception):
            entry.load()


def run_tests(tests: list[str], limit_s: float) -> bool:
    """Whether tests pass in a fork of this process, within a limit of CPU time."""
    import pytest

    FAILED.write_text("{}")
    child = os.fork()
    if child == 0:
        status = 1
        with contextlib.suppress(BaseException):
            os.setsid()
            os.chdir(TREE)
            nowhere = os.open(os.devnull, os.O_RDWR)
            for number in range(3):
                os.dup2(nowhere, number)
            sys.path = [
                f"{TREE}/python",
                f"{TREE}/tests/tools",
                *(p for p in sys.path if p != HERE),
            ]
            os.environ["PYTHONPATH"] = os.pathsep.join(sys.path[:2])
            os.environ["MUTANTS_TESTS"] = str(FAILED)
            # Plugins are imported already, which pytest warns of.
            more = ["-p", "mutant_contexts", "-W", "ignore::pytest.PytestAssertRewriteWarning"]
            status = int(pytest.main(["-x", "-q", "-p", "no:cacheprovider", *more, *tests]))
        os._exit(status)
    return wait_for(child, limit_s) == 0


def _digest(*contents: bytes) -> str:
    found = hashlib.sha256()
    for content in contents:
        found.update(content)
    return found.hexdigest()[:16]


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
        for path in files:
            folder = WORK / "map" / f"{path.stem}-{_digest(without_texts(path.read_bytes()))}"
            earlier = [found.parent for found in folder.glob("*/tests.json")]
            self._add(path, earlier[0] if keep and earlier else folder / package)
        self.known = self.seconds.keys() - self.failing
        # Number of lines that each test runs: a test that runs few lines is likely to test these.
        self.reach = dict.fromkeys(self.seconds, 0)
        for by_line in self.lines.values():
            for tests in by_line.values():
                for test in tests:
                    self.reach[test] += 1

    def _add(self, path: Path, folder: Path) -> None:
        times = folder / "tests.json"
        if not times.exists():
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
            coverage = [
                sys.executable,
                "-m",
                "coverage",
                "run",
                f"--rcfile={settings}",
                "-m",
                "pytest",
            ]
            more = {"MUTANTS_TESTS": str(times), "COVERAGE_PROCESS_START": str(settings)}
            run([*coverage, test, *UNIT, "-p", "mutant_contexts"], 3600, **more)
        result: dict[str, Any] = json.loads(times.read_text())
        self.seconds |= result["seconds"]
        self.failing |= set(result["failed"])
        for failing in result["failed"]:
            print(f"left out, since it fails under coverage or in a copy of the tree: {failing}")
        for part in folder.glob("coverage.*"):
            self._read(part)

    def _read(self, part: Path) -> None:
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


def python_mutants() -> list[Mutant]:
    """Every mutant of the package, in the order of files and lines."""
    found = []
    for path in sorted((TREE / PACKAGE).rglob("*.py")):
        name = path.relative_to(TREE).as_posix()
        if not name.startswith(ELSEWHERE) and name not in HARMFUL:
            source = path.read_bytes()
            for edit in python_edits(source):
                found.append(Mutant(name, edit, edit.line(source), f"{name}: {edit.shown(source)}"))
    return found


def try_python(mutant: Mutant, tests: TestMap, budget_s: float) -> bool | None:
    """Return whether a test fails with the mutant in the copy; None if the edit changes nothing or cannot compile."""
    target = TREE / mutant.path
    original = target.read_bytes()
    if not changes_python(original, mutant.edit):
        return None
    groups = tests.of(mutant, budget_s)
    try:
        write_anew(target, mutant.edit.apply(original))
        if all(not group or run_tests(group, limit_s(group, tests)) for group in groups):
            return False
    finally:
        write_anew(target, original)
    failed = json.loads(FAILED.read_text() or "{}").get("failed", [])
    for test in failed:
        # Generous: with the mutant, the test may have failed by the time that it took.
        if test not in tests.passing and not run_tests([test], CONFIRM_LIMIT_S):
            print(f"left out, since it fails without a mutant: {test}", flush=True)
            tests.failing.add(test)
            return try_python(mutant, tests, budget_s)
        tests.passing.add(test)
    return True


def limit_s(group: Sequence[str], tests: TestMap) -> float:
    return 10 + 3 * sum(tests.seconds[test] for test in group)


def write_anew(path: Path, content: bytes) -> None:
    """Write a file with a modification time that it never had, so that Python does not use an outdated .pyc."""
    global _written
    _written += 2
    path.write_bytes(content)
    os.utime(path, (_written, _written))


def protect_devices() -> None:
    """As root, restart the program in a mount namespace in which /dev is read-only."""
    private = ["unshare", "--mount", "sh", "-c"]
    read_only = "mount --rbind /dev /dev && mount -o remount,bind,ro /dev"
    if os.geteuid() != 0 or "MUTANTS_PROTECTED" in os.environ or shutil.which("unshare") is None:
        return
    if subprocess.run([*private, read_only], check=False).returncode == 0:
        os.environ["MUTANTS_PROTECTED"] = "1"
        os.execvp(
            private[0], [*private, f'{read_only} && exec "$@"', "sh", sys.executable, *sys.argv]
        )


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--count", type=int, default=300, help="mutants to try (300)")
    parser.add_argument("--seed", type=int, default=1, help="of the choice (1)")
    parser.add_argument(
        "--budget", type=float, default=8, help="CPU seconds of tests that a mutant gets (8)"
    )
    parser.add_argument(
        "--only", default="", help="parts of the paths to choose from, with commas between them"
    )
    parser.add_argument(
        "--again", action="store_true", help="try those that survived earlier runs, not random ones"
    )
    parser.add_argument(
        "--keep-map",
        action="store_true",
        help="which test runs which line: as in the last run, without measuring anew",
    )
    parser.add_argument(
        "--cpp", action="store_true", help="of the public C++ headers and of csrc/core"
    )
    parser.add_argument("--headers-only", action="store_true", help="for --cpp: not of csrc/core")
    parser.add_argument("--compiler", default="g++", help="for --cpp (g++)")
    options = parser.parse_args()
    WORK.mkdir(parents=True, exist_ok=True)
    enter_environment()
    protect_devices()
    copy_tree()
    if options.cpp:
        from cpp_mutants import CppMutants

        python_tests = None
        if not options.headers_only:
            python_tests = TestMap(options.keep_map)
            preload()
        cpp = CppMutants(TREE, options.compiler, python_tests)
        outcome = sift(cpp.mutants(), options, cpp.is_noticed)
    else:
        tests = TestMap(options.keep_map)
        preload()
        quickest = sorted(
            tests.seconds.keys() - tests.failing, key=lambda test: tests.seconds[test]
        )
        if not run_tests(quickest[:100], 600):
            raise SystemExit("tests fail without any mutant: run make test-python")
        outcome = sift(
            python_mutants(), options, lambda mutant: try_python(mutant, tests, options.budget)
        )
    noticed, survived, listed = outcome
    tried = len(noticed) + len(survived)
    print(
        f"seed {options.seed}: {tried + len(listed)} mutants, {len(listed)} of them listed as equivalent"
    )
    print(f"noticed {len(noticed)} of {tried} others ({100 * len(noticed) / max(tried, 1):.0f} %)")
    return 1 if survived else 0


def sift(mutants: list[Mutant], options: argparse.Namespace, is_noticed: Any) -> Outcome:
    """Try mutants chosen at random; one that is_noticed() gives None for is replaced by another."""
    known = equivalent()
    kept = SURVIVED[options.cpp]
    earlier = kept.read_text().splitlines() if kept.exists() else []
    parts = options.only.split(",")
    candidates = [mutant for mutant in mutants if any(part in mutant.path for part in parts)]
    if options.again:
        candidates = [mutant for mutant in candidates if mutant.shown in earlier]
    random.Random(options.seed).shuffle(candidates)
    print(f"{len(candidates)} mutants to choose from", flush=True)
    outcome = Outcome([], [], [])
    for mutant in candidates:
        if sum(map(len, outcome)) >= options.count:
            break
        if mutant.shown in known:
            outcome.listed.append(mutant)
            continue
        result = is_noticed(mutant)
        if result is None:
            continue
        (outcome.noticed if result else outcome.survived).append(mutant)
        earlier = [shown for shown in earlier if shown != mutant.shown]
        kept.write_text("\n".join([*earlier, *(m.shown for m in outcome.survived)]) + "\n")
        number = sum(map(len, outcome))
        if not result:
            print(f"survived, number {number}, line {mutant.line}: {mutant.shown}", flush=True)
        elif number % 10 == 0:
            print(f"{number} tried, {len(outcome.noticed)} noticed", flush=True)
    return outcome


if __name__ == "__main__":
    sys.exit(main())
