# SPDX-License-Identifier: Apache-2.0
"""Mutants of the public C++ headers: the unit test programs that include a header are built anew and run."""

from __future__ import annotations

import math
import os
import random
import re
import subprocess
from collections import Counter
from pathlib import Path

from mutants import HARMFUL, Mutant
from mutation_operators import cpp_edits

__all__ = ["CppMutants"]

HEADERS = "csrc/include/fastprof"
MOST_PROGRAMS = 4  # of those that include a header, and use its names most
LIMIT_S = 120
BUILD_LIMIT_S = 900


def _names(source: Path) -> set[str]:
    """Return the longer identifiers of a C++ file, without those in comments."""
    code = re.sub(r"//[^\n]*", "", source.read_text())
    return set(re.findall(r"\b[A-Za-z_]\w{4,}\b", code))


class CppMutants:
    """Builds in a folder of its own, without optimisation and without a compiler cache."""

    def __init__(self, tree: Path, compiler: str) -> None:
        self.tree = tree
        self.build = tree / "build"
        self.compiler = compiler
        self.environment = {
            **os.environ,
            "CCACHE_DISABLE": "1",
            "FASTPROF_TEST_BINARY_DIR": str(self.build),  # as tests/cpp/CMakeLists.txt sets them
            "FASTPROF_TEST_SOURCE_DIR": str(tree),
        }
        self.clean: set[str] = set()  # programs that pass as they are
        self._run(
            "cmake", "-S", ".", "-B", "build", "-GNinja", f"-DCMAKE_CXX_COMPILER={compiler}",
            "-DCMAKE_BUILD_TYPE=Debug", "-DCMAKE_CXX_FLAGS_DEBUG=-O0", "-DCMAKE_CXX_COMPILER_LAUNCHER=",
            "-DFASTPROF_BUILD_PYTHON=OFF",
            "-DFASTPROF_BUILD_BENCHMARKS=OFF", "-DFASTPROF_HEADER_CHECKS=OFF",
            check=True,
        )  # fmt: skip
        self.programs = self._programs()
        self.names = {header: _names(tree / header) for header in self.programs}
        self.headers_with = Counter(name for names in self.names.values() for name in names)
        sources = (tree / "tests/cpp/unit").glob("test_*.cpp")
        self.names_of_programs = {source.stem: _names(source) for source in sources}

    def _run(self, *command: str, check: bool = False) -> int:
        limit_s = BUILD_LIMIT_S if command[0] == "cmake" else LIMIT_S
        try:
            done = subprocess.run(
                command, cwd=self.tree, env=self.environment, capture_output=True, timeout=limit_s, text=True,
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            if check:
                raise SystemExit(f"took more than {limit_s} s: {' '.join(command)}") from None
            return -1
        if check and done.returncode:
            raise SystemExit(done.stdout[-2000:] + done.stderr[-2000:])
        return done.returncode

    def _programs(self) -> dict[str, list[str]]:
        """Headers, and the unit tests that include each."""
        found: dict[str, list[str]] = {}
        for source in sorted((self.tree / "tests/cpp/unit").glob("test_*.cpp")):
            listed = subprocess.run(
                [
                    self.compiler,
                    "-std=c++17",
                    "-MM",
                    "-Icsrc/include",
                    "-Icsrc",
                    "-Itests/cpp",
                    str(source),
                ],
                cwd=self.tree,
                capture_output=True,
                text=True,
                check=True,
            ).stdout
            for header in set(re.findall(rf"{HEADERS}/\S+\.hpp", listed)):
                found.setdefault(header, []).append(source.stem)
        return found

    def mutants(self) -> list[Mutant]:
        """Every mutant of the headers that some unit test includes."""
        found = []
        for header in sorted(self.programs.keys() - set(HARMFUL)):
            source = (self.tree / header).read_bytes()
            for edit in cpp_edits(source):
                shown = f"{header}: {edit.shown(source)}"
                found.append(Mutant(header, edit, edit.line(source), shown))
        return found

    def is_noticed(self, mutant: Mutant) -> bool | None:
        """Whether a program fails with the mutant; None when none of them compiles with it."""
        programs = self.programs[mutant.path][:]
        random.Random(mutant.shown).shuffle(programs)
        programs.sort(key=lambda name: -self._relevance(mutant.path, name))
        programs = [name for name in programs[:MOST_PROGRAMS] if self._passes_as_it_is(name)]
        target = self.tree / mutant.path
        original = target.read_bytes()
        target.write_bytes(mutant.edit.apply(original))
        try:
            compiled = False
            for name in programs:
                if self._run("cmake", "--build", "build", "-j", "1", "--target", name):
                    return True if compiled else None
                compiled = True
                if self._run(str(self.build / "tests/unit" / name)) not in (0, 77):
                    return True
            return False if compiled else None
        finally:
            target.write_bytes(original)

    def _relevance(self, header: str, program: str) -> float:
        """How much a program is about a header: the names of both count, those of few headers most."""
        words = set(re.split(r"[/_.]", header.removeprefix(HEADERS))) & set(program.split("_"))
        common = self.names[header] & self.names_of_programs[program]
        rare = (math.log(len(self.names) / self.headers_with[name]) for name in common)
        return sum(rare) + 5 * len(words)

    def _passes_as_it_is(self, name: str) -> bool:
        if name not in self.clean:
            self._run("cmake", "--build", "build", "-j", "1", "--target", name, check=True)
            if self._run(str(self.build / "tests/unit" / name)) in (0, 77):
                self.clean.add(name)
        return name in self.clean
