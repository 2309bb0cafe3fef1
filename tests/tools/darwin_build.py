# SPDX-License-Identifier: Apache-2.0
"""Cross-compile fastprof to Mach-O: each public header alone, every source of ``_core``; link ``_core``.

The compiler is the package ziglang, whose clang has the headers of Darwin's C library and stubs of what libSystem
exports, and none of Apple's frameworks: Foundation and Metal are declared by us (tests/doubles/metal). The headers of
Python are this interpreter's. Nothing is run: that it compiles and that no symbol is missing is what this shows.

    python tests/tools/darwin_build.py [--processor aarch64|x86_64] [--folder build/darwin] [--jobs 2]
"""

from __future__ import annotations

import argparse
import concurrent.futures
import importlib.util
import os
import re
import subprocess
import sys
import sysconfig
from collections.abc import Iterable, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
INCLUDE = ROOT / "csrc" / "include"
METAL_DOUBLES = ROOT / "tests" / "doubles" / "metal"
PROCESSORS = ("aarch64", "x86_64")
SYSTEM = "macos.12.0"
STRICT = ("-Wall", "-Wextra", "-Wpedantic", "-Wshadow", "-Wconversion", "-Werror")
# Classes that stand for libtorch's have its virtual functions, final or not.
WARNINGS = (
    "-Wall",
    "-Wextra",
    "-Werror",
    "-Wno-unknown-warning-option",
    "-Wno-unnecessary-virtual-specifier",
)
# Of a 64-bit Mach-O file: magic number, then the processor.
MACH_O = {
    "aarch64": b"\xcf\xfa\xed\xfe\x0c\x00\x00\x01",
    "x86_64": b"\xcf\xfa\xed\xfe\x07\x00\x00\x01",
}
# What only other systems have.
LINUX_ONLY = re.compile(r"platform/linux/")
CHECKS = re.compile(r"(abi|cudart)_check\.cpp$")  # include headers of others
# What `_core` may leave to those who load it: the interpreter, and Apple's frameworks.
LEFT_TO_LOADER = re.compile(r"^_(Py|_Py|OBJC_|objc_|MTL|NS|os_log|os_signpost|_os_)")


def has_ziglang() -> bool:
    return importlib.util.find_spec("ziglang") is not None


def headers() -> list[Path]:
    """Return the public headers that macOS compiles, below ``INCLUDE``."""
    found = sorted(path.relative_to(INCLUDE) for path in (INCLUDE / "fastprof").rglob("*.hpp"))
    return [path for path in found if not LINUX_ONLY.search(path.as_posix())]


def core_sources() -> list[Path]:
    """Return what csrc/CMakeLists.txt and csrc/bindings/CMakeLists.txt compile into ``_core`` on macOS."""
    csrc = ROOT / "csrc"
    folders = ("adapters", "core", "backends", "bindings")
    sources = [path for folder in folders for path in sorted((csrc / folder).rglob("*.cpp"))]
    apart = ("backends/annotations/", "backends/nvtx/injection/", "backends/itt/collector/")
    kept = [
        path
        for path in sources
        if not CHECKS.search(path.name) and not path.relative_to(csrc).as_posix().startswith(apart)
    ]
    return kept + sorted((csrc / "backends" / "metal").glob("*.mm"))


def python_flags(folder: Path) -> list[str]:
    """Return the flags for Python's headers; distributions keep pyconfig.h elsewhere, for each processor."""
    config = folder / "python" / "pyconfig.h"
    config.parent.mkdir(parents=True, exist_ok=True)
    config.write_text(f'#include "{sysconfig.get_config_h_filename()}"\n')
    import pybind11

    return [
        f"-I{config.parent}",
        "-isystem",
        sysconfig.get_paths()["include"],
        "-isystem",
        pybind11.get_include(),
    ]


def zig(processor: str, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """Run the compiler for a processor."""
    return subprocess.run(
        [sys.executable, "-m", "ziglang", "c++", "-target", f"{processor}-{SYSTEM}", *map(str, arguments)],
        capture_output=True, text=True, timeout=1200, check=False,
    )  # fmt: skip


def compile_source(
    processor: str, source: Path, made: Path, flags: Sequence[str] = (), optimize: str = "-O1"
) -> str:
    """Compile one file to an object file; returns what the compiler said, empty if it is content."""
    made.parent.mkdir(parents=True, exist_ok=True)
    made.unlink(missing_ok=True)
    objective = ("-x", "objective-c++", "-fblocks", "-fobjc-arc") if source.suffix == ".mm" else ()
    frameworks = (f"-I{METAL_DOUBLES / 'darwin'}", "-idirafter", str(METAL_DOUBLES / "apple"))
    done = zig(
        processor, *objective, "-std=c++17", optimize, "-fvisibility=hidden", "-fvisibility-inlines-hidden",
        f"-I{INCLUDE}", f"-I{ROOT / 'csrc'}", *frameworks, *flags, "-c", source, "-o", made,
    )  # fmt: skip
    if done.returncode != 0:
        return done.stderr or f"the compiler ended with {done.returncode}"
    head = made.read_bytes()[:8]
    return "" if head == MACH_O[processor] else f"{made} begins with {head!r}"


def compile_headers(
    processor: str, folder: Path, names: Iterable[Path], jobs: int
) -> dict[str, str]:
    """Compile each header alone, included twice; returns what the compiler said of those that it refused."""
    refused: dict[str, str] = {}
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        pending = {}
        for name in names:
            unit = folder / "headers" / f"{name.as_posix().replace('/', '_')}.cpp"
            unit.parent.mkdir(parents=True, exist_ok=True)
            unit.write_text(f'#include "{name.as_posix()}"\n' * 2)
            made = unit.with_suffix(".o")
            pending[pool.submit(compile_source, processor, unit, made, STRICT, "-O0")] = name
        for done in concurrent.futures.as_completed(pending):
            if said := done.result():
                refused[pending[done].as_posix()] = said
    return refused


def compile_core(processor: str, folder: Path, jobs: int) -> tuple[list[Path], dict[str, str]]:
    """Compile the sources of ``_core``; returns the objects, and what the compiler said of the sources it refused."""
    flags = [*python_flags(folder), *WARNINGS, "-fPIC"]
    made: list[Path] = []
    refused: dict[str, str] = {}
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        pending = {}
        for source in core_sources():
            name = source.relative_to(ROOT).as_posix()
            target = folder / "core" / (name.replace("/", "_") + ".o")
            pending[pool.submit(compile_source, processor, source, target, flags)] = name
            made.append(target)
        for done in concurrent.futures.as_completed(pending):
            if said := done.result():
                refused[pending[done]] = said
    return made, refused


def link_core(processor: str, folder: Path, objects: Sequence[Path]) -> tuple[Path, str]:
    """Link ``_core`` as a bundle that finds the interpreter and the frameworks when it is loaded."""
    made = folder / "_core.so"
    done = zig(processor, "-bundle", "-Wl,-undefined,dynamic_lookup", *objects, "-o", made)
    if done.returncode != 0:  # zig's linker has no bundles in some versions
        done = zig(processor, "-dynamiclib", "-Wl,-undefined,dynamic_lookup", *objects, "-o", made)
    return made, done.stderr if done.returncode != 0 else ""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--processor", choices=PROCESSORS, action="append")
    parser.add_argument("--folder", type=Path, default=ROOT / "build" / "darwin")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--headers-only", action="store_true")
    options = parser.parse_args()
    if not has_ziglang():
        print("ziglang is not installed: pip install ziglang", file=sys.stderr)
        return 2
    failures = 0
    for processor in options.processor or PROCESSORS:
        folder = options.folder.resolve() / processor
        folder.mkdir(parents=True, exist_ok=True)
        refused = compile_headers(processor, folder, headers(), options.jobs)
        print(
            f"{processor}: {len(headers()) - len(refused)} of {len(headers())} headers compile alone"
        )
        if not options.headers_only:
            objects, more = compile_core(processor, folder, options.jobs)
            refused |= more
            print(
                f"{processor}: {len(objects) - len(more)} of {len(objects)} sources of _core compile"
            )
            if not more:
                made, said = link_core(processor, folder, objects)
                print(
                    f"{processor}: "
                    + (f"_core does not link\n{said}" if said else f"{made} is linked")
                )
                failures += bool(said)
        for name, said in refused.items():
            print(f"{name}\n{said}", file=sys.stderr)
        failures += len(refused)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
