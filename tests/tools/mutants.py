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
import random
import sys
from pathlib import Path
from typing import Any, NamedTuple

from mutation_operators import Mutant, changes_python, python_edits
from mutation_runs import failed_tests, preload, run_tests
from mutation_test_map import TestMap, limit_s
from mutation_tree import (
    HARMFUL,
    PACKAGE,
    TREE,
    WORK,
    copy_tree,
    enter_environment,
    protect_devices,
    write_anew,
)

SURVIVED = {False: WORK / "survived.txt", True: WORK / "survived_cpp.txt"}  # by --cpp, for --again
LISTED = Path(__file__).resolve().parent / "equivalent_mutants.txt"
# Folders that only tests/python/integration tests, because they work with packages that the unit tests do not need.
ELSEWHERE = (
    "python/fastprof/integrations/",
    "python/fastprof/adapters/torch/",
    "python/fastprof/adapters/trio_tasks.py",
    "python/fastprof/cli/torch_check.py",
    "python/fastprof/views/plot.py",
)
CONFIRM_LIMIT_S = 300  # for a test that failed with a mutant, run again without


class Outcome(NamedTuple):
    noticed: list[Mutant]
    survived: list[Mutant]
    listed: list[Mutant]


def equivalent() -> set[str]:
    """The mutants that equivalent_mutants.txt lists: `path: old => new` at the beginning of a line."""
    lines = LISTED.read_text().splitlines() if LISTED.exists() else []
    return {line for line in lines if line and line[0] not in "# "}


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
    for test in failed_tests():
        # Generous: with the mutant, the test may have failed by the time that it took.
        if test not in tests.passing and not run_tests([test], CONFIRM_LIMIT_S):
            print(f"left out, since it fails without a mutant: {test}", flush=True)
            tests.failing.add(test)
            return try_python(mutant, tests, budget_s)
        tests.passing.add(test)
    return True


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
    parser.add_argument("--compiler", default="g++", help="for --cpp (g++); clang++ is quicker")
    parser.add_argument(
        "--quick",
        action="store_true",
        help="for headers: fewer programs a mutant, no sanitizers; then try the survivors with --again",
    )
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
        cpp = CppMutants(TREE, options.compiler, python_tests, options.keep_map, options.quick)
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
