# SPDX-License-Identifier: Apache-2.0
"""Mutants of C++ sources, and the tests that could notice them.

A mutant of a public header is tried with the unit test programs that run its line (cpp_test_map.py), those most
relevant to the header first; at last with two of them under AddressSanitizer and UBSan, under which CI runs them as
well. One of csrc/core is tried with the Python unit tests of what uses it, on an extension module built anew.
"""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path

from cpp_test_map import SLOW_S, CppTestMap
from mutation_operators import Mutant, cpp_edits, lines_of_functions
from mutation_runs import run, run_tests
from mutation_test_map import TestMap, limit_s
from mutation_tree import HARMFUL, PACKAGE, ROOT, WORK

__all__ = ["CppMutants"]

HEADERS = "csrc/include/fastprof"
CORE = "csrc/core"
LIBRARIES = ("core", "annotations", "definitions")  # in the order of the linker
MOST_PROGRAMS = 5
QUICK_PROGRAMS = 3
MOST_SANITIZED = 2
SANITIZERS = ("-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-g1")
BUILD_LIMIT_S = 3600
# Modules of the package that use a part of csrc/core (by prefix of its path): the tests that run them are tried.
USERS = {
    "trace_json/": ("chrome_trace", "event_columns", "json_stream"),
    "trace_proto/": ("perfetto_native", "perfetto_packets", "native_stacks", "perfetto_sequence"),
    "trace_rows/": ("event_columns", "perfetto_native", "perfetto_rows", "native_stacks"),
    "sqlite_pages/": ("sqlite_file", "nsys"),
    "range_": ("emission",),
    "device_backend": ("device_collections", "devices"),
}


class CppMutants:
    """Mutants of csrc/core, and of the public headers that a unit test includes."""

    def __init__(
        self,
        tree: Path,
        compiler: str,
        python_tests: TestMap | None,
        keep_map: bool = False,
        quick: bool = False,
    ) -> None:
        """python_tests: the tests for mutants of csrc/core; None: no mutants of csrc/core. quick: fewer programs for a
        mutant of a header, without sanitizers."""
        self.tree = tree
        self.python_tests = python_tests
        self.most_programs = QUICK_PROGRAMS if quick else MOST_PROGRAMS
        self.most_sanitized = 0 if quick else MOST_SANITIZED
        self.noticed_by = ""  # program that failed last with a mutant
        self._passing: dict[tuple[str, ...], bool] = {}  # by program and options
        self.native = (
            tree / "build" / "native"
        )  # as deep as the editable build, so that ccache finds its objects
        self.map = CppTestMap(tree, WORK, compiler, run, keep_map)
        if python_tests is not None:
            self._configure(compiler)
            self.map.libraries = self._libraries(self.native)
        else:
            built = (self._libraries(folder) for folder in (ROOT / "build").glob("*"))
            self.map.libraries = next(filter(None, built), [])

    def _configure(self, compiler: str) -> None:
        """Build the extension without a mutant, in the folder where mutants of csrc/core are built later."""
        done = subprocess.run(
            [
                "cmake", "-S", ".", "-B", str(self.native), "-GNinja", f"-DCMAKE_CXX_COMPILER={compiler}",
                "-DCMAKE_BUILD_TYPE=Release", "-DFASTPROF_BUILD_PYTHON=ON", "-DFASTPROF_BUILD_TESTS=OFF",
                "-DFASTPROF_BUILD_INJECTION=OFF", "-DFASTPROF_INPLACE=ON",
            ],
            cwd=self.tree, capture_output=True, text=True, check=False,
        )  # fmt: skip
        if done.returncode or not self._builds("_core", "fastprof_annotations"):
            raise SystemExit("the extension cannot be built: " + done.stderr[-2000:])

    @staticmethod
    def _libraries(folder: Path) -> list[str]:
        """Return the libraries of a build folder that some test programs need, unless one is missing."""
        paths = [folder / f"csrc/libfastprof_{name}.a" for name in LIBRARIES]
        return [str(path) for path in paths] if all(path.exists() for path in paths) else []

    def _builds(self, *targets: str) -> bool:
        command = ["cmake", "--build", str(self.native), "-j", "1", "--target", *targets]
        return run(command, BUILD_LIMIT_S) == 0

    def mutants(self) -> list[Mutant]:
        included = {path for found in self.map.includes.values() for path in found}
        paths = {path for path in included if path.startswith(HEADERS)}
        if self.python_tests is not None:
            core = (self.tree / CORE).rglob("*.[ch]pp")
            paths |= {path.relative_to(self.tree).as_posix() for path in core}
        found = []
        for path in sorted(paths - set(HARMFUL)):
            source = (self.tree / path).read_bytes()
            for edit in cpp_edits(source):
                found.append(Mutant(path, edit, edit.line(source), f"{path}: {edit.shown(source)}"))
        return found

    def is_noticed(self, mutant: Mutant) -> bool | None:
        """Whether a test fails with the mutant; None when it does not compile."""
        target = self.tree / mutant.path
        original = target.read_bytes()

        def with_mutant(programs: Sequence[str], options: Sequence[str] = ()) -> bool | None:
            target.write_bytes(mutant.edit.apply(original))
            try:
                if mutant.path.startswith(CORE):
                    return self._python_notices(mutant, programs)
                return self._program_notices(programs, options)
            finally:
                target.write_bytes(original)

        if mutant.path.startswith(CORE):
            return with_mutant(next(self.map.closest(mutant.path, mutant.line, MOST_PROGRAMS), ()))
        result: bool | None = None
        tried: list[str] = []
        # Without the mutant in between: what programs run may have to be measured.
        for programs in self.map.closest(mutant.path, mutant.line, self.most_programs):
            tried += programs
            result = with_mutant(programs)
            if result is not False:
                break
        if result is False:
            tried = tried[: self.most_sanitized]
            sanitized = [name for name in tried if self._passes(name, SANITIZERS)]
            return with_mutant(sanitized, SANITIZERS) if sanitized else False
        if result and self.noticed_by and not self._passes(self.noticed_by, ()):
            print(f"left out, since it fails without a mutant: {self.noticed_by}", flush=True)
            self.map.leave_out(self.noticed_by)
            return self.is_noticed(mutant)
        return result

    def _passes(self, name: str, options: Sequence[str]) -> bool:
        """Whether a program passes without a mutant, built with options."""
        if (name, *options) not in self._passing:
            passes = self.map.compiles(name, *options) and self.map.passes(name, SLOW_S)
            self._passing[(name, *options)] = passes
        return self._passing[(name, *options)]

    def _program_notices(self, programs: Sequence[str], options: Sequence[str]) -> bool | None:
        compiled = False
        for name in programs:
            if not self.map.compiles(name, *options):
                return True if compiled else None
            compiled = True
            if not self.map.passes(name, 20 + 10 * self.map.program(name).run_s):
                self.noticed_by = name
                return True
        return False if compiled else None

    def _python_notices(self, mutant: Mutant, programs: Sequence[str]) -> bool | None:
        """Build the extension module with a mutant and run the tests of what uses it."""
        tests = self.python_tests
        assert tests is not None
        if not self._builds("_core"):
            return None
        groups = self._python_tests(mutant.path, tests)
        if any(group and not run_tests(group, limit_s(group, tests)) for group in groups):
            return True
        return bool(self._program_notices(programs, ()))

    def _python_tests(self, path: str, tests: TestMap) -> list[list[str]]:
        part = path.removeprefix(f"{CORE}/")
        names = next((users for prefix, users in USERS.items() if part.startswith(prefix)), ())
        near: set[str] = set()
        for user in self.tree.glob(f"{PACKAGE}/*/*.py"):
            if user.stem in names:
                by_line = tests.lines.get(user.relative_to(self.tree).as_posix(), {})
                for line in lines_of_functions(user.read_bytes()):
                    near |= by_line.get(line, set())
        return tests.in_groups(near & tests.known, budget_s=30)
