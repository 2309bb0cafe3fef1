# SPDX-License-Identifier: Apache-2.0
"""CppTestMap: which C++ unit test programs run which lines of the headers, measured by gcov.

Each test file is compiled by one command, without optimisation: a program of its own takes 1 to 6 seconds of CPU time.
What was found of a program is kept until a file that it includes changes.
"""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

__all__ = ["CppTestMap", "Program"]

BUILD_LIMIT_S = 600
LIMIT_S = 120
COVERAGE = "--coverage"
LINKED = {
    "core/",
    "backends/",
    "adapters/",
}  # folders of csrc whose sources a program that includes them needs


class Program(NamedTuple):
    """A test program: what it includes, the lines that it runs, and how long it takes.

    lines: by file, those that it runs. known: by file, those that it compiles, run or not. compile_s and run_s are
    wall times, in seconds. passes: whether its tests pass as they are.
    """

    name: str
    includes: frozenset[str]
    lines: dict[str, frozenset[int]]
    known: dict[str, frozenset[int]]
    compile_s: float
    run_s: float
    passes: bool


class CppTestMap:
    """The programs of tests/cpp/unit. tree: a copy of the repository; run: as mutants.run()."""

    def __init__(
        self, tree: Path, work: Path, compiler: str, run: Callable[..., int | None]
    ) -> None:
        self.tree = tree
        self.compiler = compiler
        self.folder = work / "cpp_map"
        self.build = work / "cpp_build"
        self.libraries: list[str] = []  # for programs that need more than headers
        self._run = run
        self.folder.mkdir(parents=True, exist_ok=True)
        shutil.rmtree(self.build, ignore_errors=True)
        self.build.mkdir()
        # Programs that tests start are looked for under these (tests/cpp/CMakeLists.txt sets them).
        self.environment = {
            "FASTPROF_TEST_BINARY_DIR": str(self.build),
            "FASTPROF_TEST_SOURCE_DIR": str(tree),
        }

    def measure(self) -> list[Program]:
        """Every program, measured where something that it includes has changed."""
        sources = sorted((self.tree / "tests/cpp/unit").glob("test_*.cpp"))
        return [self._measured(source) for source in sources]

    def needs_libraries(self, name: str) -> bool:
        source = (self.tree / f"tests/cpp/unit/{name}.cpp").read_text()
        return any(f'#include "{folder}' in source for folder in LINKED)

    def compiles(self, name: str, *more: str) -> bool:
        """Whether a program can be built; more: options of the compiler."""
        target = self.path(name)
        target.parent.mkdir(parents=True, exist_ok=True)
        libraries = self.libraries if self.needs_libraries(name) else []
        command = [self.compiler, *self._options(), *more, "-o", str(target)]
        command += [f"tests/cpp/unit/{name}.cpp", *libraries, "-ldl", "-pthread"]
        return self._run(command, BUILD_LIMIT_S) == 0

    def passes(self, name: str, limit_s: float = LIMIT_S) -> bool:
        """Whether a program that was built passes; 77 says that everything in it was skipped."""
        return self._run([str(self.path(name))], limit_s, **self.environment) in (0, 77)

    def path(self, name: str) -> Path:
        return self.build / "tests/unit" / name

    def _options(self) -> list[str]:
        flags = ["-std=c++17", "-O0", "-w", "-fvisibility=hidden", "-fvisibility-inlines-hidden"]
        return [*flags, "-Icsrc/include", "-Icsrc", "-Itests/cpp"]

    def _measured(self, source: Path) -> Program:
        name = source.stem
        includes = self._includes(source)
        digest = hashlib.sha256()
        for path in sorted(includes):
            digest.update((self.tree / path).read_bytes())
        kept = self.folder / f"{name}-{digest.hexdigest()[:16]}.json"
        if not kept.exists():
            for old in self.folder.glob(f"{name}-*.json"):
                old.unlink()
            print(f"which lines does {name}.cpp run?", flush=True)
            kept.write_text(json.dumps(self._measure(name)))
        found = json.loads(kept.read_text())
        if not found["passes"]:
            print(f"left out, since it fails in a copy of the tree: {name}", flush=True)
        return Program(
            name,
            includes,
            {path: frozenset(lines) for path, lines in found["lines"].items()},
            {path: frozenset(lines) for path, lines in found["known"].items()},
            found["compile_s"],
            found["run_s"],
            found["passes"],
        )

    def _includes(self, source: Path) -> frozenset[str]:
        """The files of the repository that a test file includes, and itself."""
        command = [self.compiler, *self._options(), "-MM", str(source)]
        listed = subprocess.run(command, cwd=self.tree, capture_output=True, text=True, check=True)
        paths = re.findall(r"[^\s\\:]+\.[ch]pp", listed.stdout)
        found = {path.removeprefix(f"{self.tree}/") for path in paths}
        return frozenset(path for path in found if (self.tree / path).exists())

    def _measure(self, name: str) -> dict[str, object]:
        """Build and run a program twice: as mutants are tried, and with coverage."""
        began = time.monotonic()
        built = self.compiles(name)
        compile_s = time.monotonic() - began
        began = time.monotonic()
        passes = built and self.passes(name)
        run_s = time.monotonic() - began
        lines: dict[str, list[int]] = {}
        known: dict[str, list[int]] = {}
        if passes and self.compiles(name, COVERAGE, "-fprofile-update=atomic"):
            self.passes(name)
            lines, known = self._lines(name)
        return {
            "lines": lines,
            "known": known,
            "compile_s": compile_s,
            "run_s": run_s,
            "passes": passes,
        }

    def _lines(self, name: str) -> tuple[dict[str, list[int]], dict[str, list[int]]]:
        """What gcov says of a program that has run, by file: the lines that it runs, and all that it compiles."""
        counts = next(self.path(name).parent.glob(f"{name}*.gcda"), None)
        if counts is None:
            return {}, {}
        gcov = ["gcov", "--json-format", "--stdout", str(counts)]
        told = subprocess.run(gcov, cwd=self.tree, capture_output=True, text=True, check=True)
        lines: dict[str, set[int]] = {}
        known: dict[str, set[int]] = {}
        for document in told.stdout.splitlines():
            for file in json.loads(document)["files"]:
                path = file["file"].removeprefix(f"{self.tree}/")
                if path.startswith("csrc/"):
                    for line in file["lines"]:
                        known.setdefault(path, set()).add(line["line_number"])
                        if line["count"]:
                            lines.setdefault(path, set()).add(line["line_number"])
        for part in self.path(name).parent.glob(f"{name}*.gc*"):
            part.unlink()
        return (
            {path: sorted(found) for path, found in lines.items()},
            {path: sorted(found) for path, found in known.items()},
        )
