# SPDX-License-Identifier: Apache-2.0
"""Cross-compile fastprof to Mach-O: each public header alone; ``_core`` by the project's own CMake files, linked.

The compiler is clang from the package ziglang, which has the headers of Darwin's C library and stubs of libSystem. It
has no frameworks of Apple: we declare Foundation and Metal, and the symbols of their libraries (tests/doubles/metal).
The headers of Python are this interpreter's. CMake is configured with CMAKE_SYSTEM_NAME=Darwin, so its branches for
APPLE are used. Nothing is run. The build shows that everything compiles and links, and that the only symbols left to
the loader are the interpreter's.

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

from mach_o import left_to_loader, sections, symbols

ROOT = Path(__file__).resolve().parents[2]
INCLUDE = ROOT / "csrc" / "include"
METAL_DOUBLES = ROOT / "tests" / "doubles" / "metal"
PROCESSORS = ("aarch64", "x86_64")
SYSTEM = "macos.12.0"
STRICT = ("-Wall", "-Wextra", "-Wpedantic", "-Wshadow", "-Wconversion", "-Werror")
WARNINGS = ("-Wall", "-Wextra", "-Werror")
# Of a 64-bit Mach-O file: magic number, then the processor.
MACH_O = {
    "aarch64": b"\xcf\xfa\xed\xfe\x0c\x00\x00\x01",
    "x86_64": b"\xcf\xfa\xed\xfe\x07\x00\x00\x01",
}
# Headers of other systems.
LINUX_ONLY = re.compile(r"platform/linux/")
# Symbols that `_core` may leave to the loader: the interpreter's, and those that our double of os_signpost.h uses.
LEFT_TO_LOADER = re.compile(r"^_(_?Py|fake_os_signpost$)")


def has_ziglang() -> bool:
    return importlib.util.find_spec("ziglang") is not None


def headers() -> list[Path]:
    """Return the public headers that macOS compiles, below ``INCLUDE``."""
    found = sorted(path.relative_to(INCLUDE) for path in (INCLUDE / "fastprof").rglob("*.hpp"))
    return [path for path in found if not LINUX_ONLY.search(path.as_posix())]


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
    """Compile one file to an object file; return the compiler's messages, empty on success."""
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
    """Compile each header alone, included twice; return the compiler's messages for those that fail."""
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


def configure_core(processor: str, folder: Path) -> tuple[Path, str]:
    """Configure the project for macOS; return the build folder, and CMake's messages if it fails.

    Differences from a Mac: the compiler, tools that are not needed, a library instead of a bundle, which the linker of
    some versions of ziglang cannot make, and where Python's headers are.
    """
    tools = folder / "tools"
    tools.mkdir(parents=True, exist_ok=True)
    compiler = f"{sys.executable};-m;ziglang;c++;-target;{processor}-{SYSTEM}"
    for name in ("ar", "ranlib", "install_name_tool", "strip"):
        action = (
            f'exec "{sys.executable}" -m ziglang {name} "$@"'
            if name in ("ar", "ranlib")
            else "exit 0"
        )
        (tools / name).write_text(f"#!/bin/sh\n{action}\n")
        (tools / name).chmod(0o755)
    (tools / "toolchain.cmake").write_text(
        f"""set(CMAKE_SYSTEM_NAME Darwin)
set(CMAKE_SYSTEM_PROCESSOR {"arm64" if processor == "aarch64" else processor})
set(CMAKE_CXX_COMPILER "{compiler}")
set(CMAKE_OBJCXX_COMPILER "{compiler}")
set(CMAKE_AR "{tools / "ar"}")
set(CMAKE_RANLIB "{tools / "ranlib"}")
set(CMAKE_INSTALL_NAME_TOOL "{tools / "install_name_tool"}")
set(CMAKE_STRIP "{tools / "strip"}")
"""
    )
    (tools / "after_project.cmake").write_text(
        'set(CMAKE_SHARED_MODULE_CREATE_CXX_FLAGS "-dynamiclib")\n'
        'set(CMAKE_SHARED_MODULE_CREATE_OBJCXX_FLAGS "-dynamiclib")\n'
    )
    build = folder / "cmake"
    frameworks = f"-I{METAL_DOUBLES / 'darwin'} -idirafter {METAL_DOUBLES / 'apple'}"
    done = subprocess.run(
        [
            "cmake", "-G", "Ninja", "-S", str(ROOT), "-B", str(build), "-DCMAKE_BUILD_TYPE=Release",
            "-DCMAKE_CXX_FLAGS_RELEASE=-O1", "-DCMAKE_OBJCXX_FLAGS_RELEASE=-O1",
            f"-DCMAKE_TOOLCHAIN_FILE={tools / 'toolchain.cmake'}",
            f"-DCMAKE_PROJECT_INCLUDE={tools / 'after_project.cmake'}",
            f"-DCMAKE_OSX_DEPLOYMENT_TARGET={SYSTEM.partition('.')[2]}",
            "-DCMAKE_CXX_FLAGS=-Werror", f"-DCMAKE_OBJCXX_FLAGS=-Werror {frameworks}",
            f"-DCMAKE_MODULE_LINKER_FLAGS=-F{METAL_DOUBLES / 'frameworks'}",
            "-DFASTPROF_BUILD_PYTHON=ON", "-DFASTPROF_BUILD_TESTS=OFF",
            f"-DPython_EXECUTABLE={sys.executable}", f"-DPython_INCLUDE_DIR={sysconfig.get_paths()['include']}",
        ],
        capture_output=True, text=True, timeout=1200, check=False,
    )  # fmt: skip
    return build, done.stdout + done.stderr if done.returncode != 0 else ""


def build_core(build: Path, jobs: int) -> tuple[list[Path], str]:
    """Build ``_core`` in a configured folder; return the library, and the tools' messages if they fail."""
    done = subprocess.run(
        ["ninja", "-C", str(build), "-j", str(jobs), "-k", "0", "_core"],
        capture_output=True, text=True, timeout=7200, check=False,
    )  # fmt: skip
    return sorted(build.rglob("_core*.so")), done.stdout if done.returncode != 0 else ""


def wrong_with_core(processor: str, library: Path) -> list[str]:
    """Return the faults of a library that CMake linked: unexpected and missing contents."""
    image = library.read_bytes()
    if image[:8] != MACH_O[processor]:
        return [f"{library} begins with {image[:8]!r}"]
    left = sorted(name for name in left_to_loader(image) if not LEFT_TO_LOADER.search(name))
    wrong = [f"{name} is nowhere" for name in left]
    if "_PyInit__core" not in {name for name, _ in symbols(image)}:
        wrong.append("the module has no entry")
    states = [s for s in sections(image) if (s.segment, s.name) == ("__DATA", "__fastprof")]
    if len(states) != 1:
        wrong.append(f"the recorder's State lies in {len(states)} sections")
    if any(s.name.startswith(".note") for s in sections(image)):
        wrong.append("there is an ELF note")
    return wrong


def core_problems(processor: str, folder: Path, jobs: int) -> list[str]:
    """Configure and build ``_core``; print the result and return the problems."""
    build, refused = configure_core(processor, folder)
    if refused:
        return [refused]
    made, refused = build_core(build, jobs)
    if refused or len(made) != 1:
        return [refused or f"CMake made {len(made)} libraries"]
    wrong = wrong_with_core(processor, made[0])
    if not wrong:
        print(f"{processor}: {made[0]} is linked ({made[0].stat().st_size >> 10} KB)")
    return wrong


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
            for problem in core_problems(processor, folder, options.jobs):
                print(f"{processor}: _core: {problem}", file=sys.stderr)
                failures += 1
        for name, said in refused.items():
            print(f"{name}\n{said}", file=sys.stderr)
        failures += len(refused)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
