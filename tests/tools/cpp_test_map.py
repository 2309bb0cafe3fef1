# SPDX-License-Identifier: Apache-2.0
"""CppTestMap: the lines of the headers that each C++ unit test program runs, measured with gcov.

Each test file is compiled by one command, without optimisation: a program of its own takes 1 to 6 seconds of CPU time.
A program is measured when a mutant could first be tried with it, and again when a file that it includes has changed.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import re
import shutil
import subprocess
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

__all__ = ["SLOW_S", "CppTestMap", "Program"]

BUILD_LIMIT_S = 600
SLOW_S = 60
COVERAGE_COMPILER = "g++"  # gcov reads its counts, whichever compiler builds mutants
ENOUGH = 2  # no more programs are measured for a line that this many are known to run
MOST_RELEVANT = 3  # programs that are measured for a mutant of a header in any case
COVERAGE = "--coverage"
LINKED = {
    "core/",
    "backends/",
    "adapters/",
}  # folders of csrc whose sources a program that includes them needs


class Program(NamedTuple):
    """Measurements of a test program. lines: those it runs, by file; run_s: CPU time of its tests; passes: they pass
    without a mutant."""

    lines: dict[str, frozenset[int]]
    run_s: float
    passes: bool


class CppTestMap:
    """The test programs of tests/cpp/unit. tree: a copy of the repository; run: called like mutation_runs.run().

    keep: use earlier measurements of a program even if what it includes has changed since. Saves minutes, but lines may
    have moved.
    """

    def __init__(
        self,
        tree: Path,
        work: Path,
        compiler: str,
        run: Callable[..., int | None],
        keep: bool = False,
    ) -> None:
        self.tree = tree
        self.keep = keep
        self.compiler = compiler
        self.folder = work / "cpp_map"
        self.build = work / "cpp_build"
        self.libraries: list[str] = []  # for programs that need more than headers
        self._run = run
        self.folder.mkdir(parents=True, exist_ok=True)
        shutil.rmtree(self.build, ignore_errors=True)
        self.build.mkdir()
        self._programs: dict[str, Program] = {}
        self._names: dict[str, set[str]] = {}
        sources = sorted((tree / "tests/cpp/unit").glob("test_*.cpp"))
        self.includes = {source.stem: self._includes(source) for source in sources}
        self._headers = {
            p for found in self.includes.values() for p in found if p.startswith("csrc/")
        }
        self._headers_with = Counter(name for p in self._headers for name in self._names_of(p))
        # Programs that tests start are looked for under these (tests/cpp/CMakeLists.txt sets them).
        self.environment = {
            "FASTPROF_TEST_BINARY_DIR": str(self.build),
            "FASTPROF_TEST_SOURCE_DIR": str(tree),
        }

    def closest(self, path: str, line: int, most: int) -> Iterator[list[str]]:
        """Yield groups of programs to try a mutant with: those that run its line, most relevant to the header first.

        The MOST_RELEVANT are measured first, others if fewer than ENOUGH of the measured ones run the line. Constants
        and defaults are in no program's lines, and neither are lines run only by a process that was killed. For such
        a line, any program that runs functions of the header is tried, or, if it has none, that includes it.
        """
        including = [name for name, includes in self.includes.items() if path in includes]
        including.sort(key=lambda name: -self._relevance(path, name))
        relevant = including[:MOST_RELEVANT]
        known = [name for name in including if name in relevant or self._kept(name).exists()]
        running = [name for name in known if line in self.program(name).lines.get(path, ())][:most]
        if running:
            yield running
        if len(running) >= ENOUGH:
            return
        others = [name for name in including if name not in known][: 2 * most]
        more = [name for name in others if line in self.program(name).lines.get(path, ())][:most]
        if not running and not more:
            more = [name for name in [*known, *others] if path in self.program(name).lines][:most]
            more = more or including[:most]  # of a header without functions
        if more:
            yield more

    def _relevance(self, header: str, program: str) -> float:
        """Return how relevant a program is to a header, by the names that both use; names of few headers count most."""
        words = set(re.split(r"[/_.]", header)) & set(program.split("_"))
        common = self._names_of(header) & self._names_of(f"tests/cpp/unit/{program}.cpp")
        rare = (math.log(len(self._headers) / self._headers_with[name]) for name in common)
        return sum(rare) + 5 * len(words)

    def _names_of(self, path: str) -> set[str]:
        """Return the longer identifiers of a C++ file of the copy, without those in comments."""
        if path not in self._names:
            code = re.sub(r"//[^\n]*", "", (self.tree / path).read_text())
            self._names[path] = set(re.findall(r"\b[A-Za-z_]\w{4,}\b", code))
        return self._names[path]

    def needs_libraries(self, name: str) -> bool:
        source = (self.tree / f"tests/cpp/unit/{name}.cpp").read_text()
        return any(f'#include "{folder}' in source for folder in LINKED)

    def compiles(self, name: str, *more: str) -> bool:
        """Whether a program can be built; more: options of the compiler."""
        compiler = COVERAGE_COMPILER if COVERAGE in more else self.compiler
        target = self.path(name)
        target.parent.mkdir(parents=True, exist_ok=True)
        libraries = self.libraries if self.needs_libraries(name) else []
        command = [compiler, *self._options(), *more, "-o", str(target)]
        command += [f"tests/cpp/unit/{name}.cpp", *libraries, "-ldl", "-pthread"]
        return self._run(command, BUILD_LIMIT_S) == 0

    def passes(self, name: str, limit_s: float) -> bool:
        """Whether a program that was built passes; 77 says that everything in it was skipped."""
        return self._run([str(self.path(name))], limit_s, **self.environment) in (0, 77)

    def path(self, name: str) -> Path:
        return self.build / "tests/unit" / name

    def _options(self) -> list[str]:
        flags = ["-std=c++17", "-O0", "-w", "-fvisibility=hidden", "-fvisibility-inlines-hidden"]
        return [*flags, "-Icsrc/include", "-Icsrc", "-Itests/cpp"]

    def program(self, name: str) -> Program:
        """Return what is known of a program; measures it the first time."""
        if name not in self._programs:
            kept = self._kept(name)
            if not kept.exists():
                for old in self.folder.glob(f"{name}-*.json"):
                    old.unlink()
                print(f"which lines does {name}.cpp run?", flush=True)
                kept.write_text(json.dumps(self._measure(name)))
            found = json.loads(kept.read_text())
            if not found["passes"]:
                print(f"left out, since it fails or is slow with coverage: {name}", flush=True)
            lines = {path: frozenset(numbers) for path, numbers in found["lines"].items()}
            self._programs[name] = Program(lines, found["run_s"], found["passes"])
        return self._programs[name]

    def leave_out(self, name: str) -> None:
        """Try no more mutants with a program."""
        del self.includes[name]

    def _kept(self, name: str) -> Path:
        """Return the file for a program's measurements; its name depends on the contents of the included files."""
        digest = hashlib.sha256()
        for path in sorted(self.includes[name]):
            digest.update((self.tree / path).read_bytes())
        kept = self.folder / f"{name}-{digest.hexdigest()[:16]}.json"
        if self.keep and not kept.exists():
            earlier = self.folder.glob(f"{name}-*.json")
            return max(earlier, key=lambda path: path.stat().st_mtime, default=kept)
        return kept

    def _includes(self, source: Path) -> frozenset[str]:
        """The files of the repository that a test file includes, and itself."""
        command = [self.compiler, *self._options(), "-MM", str(source)]
        listed = subprocess.run(command, cwd=self.tree, capture_output=True, text=True, check=True)
        paths = re.findall(r"[^\s\\:]+\.[ch]pp", listed.stdout)
        found = {path.removeprefix(f"{self.tree}/") for path in paths}
        return frozenset(path for path in found if (self.tree / path).exists())

    def _measure(self, name: str) -> dict[str, object]:
        """Build a program with coverage and run it. A program that fails, or takes over SLOW_S, has no lines."""
        lines: dict[str, list[int]] = {}
        passes = self.compiles(name, COVERAGE)
        began = sum(os.times()[2:4])  # of children
        passes = passes and self.passes(name, SLOW_S)
        run_s = sum(os.times()[2:4]) - began
        if passes:
            lines = self._lines(name)
        return {"lines": lines, "run_s": run_s, "passes": passes}

    def _lines(self, name: str) -> dict[str, list[int]]:
        """Return the lines that a program has run, by file, as gcov says."""
        counts = next(self.path(name).parent.glob(f"{name}*.gcda"), None)
        if counts is None:
            return {}
        gcov = ["gcov", "--json-format", "--stdout", str(counts)]
        told = subprocess.run(gcov, cwd=self.tree, capture_output=True, text=True, check=True)
        lines: dict[str, set[int]] = {}
        for document in told.stdout.splitlines():
            for file in json.loads(document)["files"]:
                path = file["file"].removeprefix(f"{self.tree}/")
                if path.startswith("csrc/"):
                    run = {line["line_number"] for line in file["lines"] if line["count"]}
                    lines.setdefault(path, set()).update(run)
        for part in self.path(name).parent.glob(f"{name}*.gc*"):
            part.unlink()
        return {path: sorted(found) for path, found in lines.items() if found}
