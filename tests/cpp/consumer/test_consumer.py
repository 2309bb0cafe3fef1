# SPDX-License-Identifier: Apache-2.0
"""Programs of other people: compiled by g++ and clang++, for three standards, found in each way that is promised."""

from __future__ import annotations

import importlib.util
import json
import os
import platform
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from compilers import (
    BARE,
    COMPILERS,
    EITHER_COMPILER,
    INCLUDE,
    LIBRARIES,
    ROOT,
    STANDARDS,
    STRICT,
    build,
    need,
    run,
    standard_flag,
)

HERE = Path(__file__).resolve().parent
SOURCES = [HERE / "main.cpp", HERE / "work.cpp"]


def run_consumer(program: Path, folder: Path) -> None:
    """Run the program; check its own verdict, and that the traces it wrote hold what it recorded."""
    chrome, perfetto = folder / "trace.json", folder / "trace.pftrace"
    output = run([program, chrome, perfetto])
    assert output.splitlines()[-1] == "0 failures"
    assert "sum_of_squares" in output
    names = [event.get("name") for event in json.loads(chrome.read_bytes())["traceEvents"]]
    assert names.count("batch") == 33
    assert names.count("with arguments") == 3
    assert b"sum_of_squares" in perfetto.read_bytes()


@pytest.mark.compilers
@pytest.mark.parametrize("standard", STANDARDS)
@EITHER_COMPILER
def test_two_translation_units(tmp_path: Path, compiler: str, standard: str) -> None:
    if standard == "c++20":  # between the oldest and the newest: compiled, but not run
        for source in SOURCES:
            run(
                [
                    need(compiler),
                    standard_flag(compiler, standard),
                    *STRICT,
                    f"-I{INCLUDE}",
                    "-fsyntax-only",
                    source,
                ]
            )
        return
    run_consumer(build(compiler, tmp_path / "consumer", SOURCES, standard=standard), tmp_path)


@pytest.mark.compilers
@EITHER_COMPILER
def test_without_exceptions_and_rtti(tmp_path: Path, compiler: str) -> None:
    """With g++ optimised: some warnings come from the optimiser."""
    flags = ["-O2" if compiler == "g++" else "-O0", *BARE]
    run_consumer(build(compiler, tmp_path / "consumer", SOURCES, flags=flags), tmp_path)


@pytest.mark.compilers
def test_the_example_of_the_readme(tmp_path: Path) -> None:
    text = (ROOT / "README.md").read_text()
    examples = re.findall(r"^```cpp\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    assert len(examples) == 1
    (tmp_path / "program.cpp").write_text(examples[0])
    program = build("g++", tmp_path / "program", [tmp_path / "program.cpp"])
    assert re.search(r"^step +user_annotation .* 3 ", run([program], cwd=tmp_path), re.MULTILINE)
    assert json.loads((tmp_path / "trace.json").read_bytes())["traceEvents"]
    assert (tmp_path / "trace.pftrace").stat().st_size > 0


@pytest.mark.compilers
@EITHER_COMPILER
def test_disabled_at_compile_time(tmp_path: Path, compiler: str) -> None:
    """FASTPROF_DISABLE leaves nothing: no argument is evaluated and no symbol of ours is in the program."""
    program = build(compiler, tmp_path / "disabled", [HERE / "disabled.cpp"])
    run([program])
    assert "fastprof" not in run([need("nm"), "-C", program])


def cmake(folder: Path, program_flags: list[str]) -> Path:
    """Configure and build the consumer project; return the program."""
    generator = ["-G", "Ninja"] if shutil.which("ninja") else []
    run([need("cmake"), *generator, "-S", HERE, "-B", folder, *program_flags])
    run(["cmake", "--build", folder])
    return folder / "consumer"


@pytest.mark.compilers
@EITHER_COMPILER
def test_add_subdirectory(tmp_path: Path, compiler: str) -> None:
    flags = [f"-DCMAKE_CXX_COMPILER={need(compiler)}", f"-DFASTPROF_SOURCE={ROOT}"]
    if compiler == "clang++":
        flags.append("-DFASTPROF_TARGET=fastprof::separate")
    run_consumer(cmake(tmp_path / "build", flags), tmp_path)


@pytest.mark.compilers
def test_find_package_in_an_installed_prefix(tmp_path: Path) -> None:
    prefix = tmp_path / "prefix"
    options = [f"-DFASTPROF_{part}=OFF" for part in ("BUILD_TESTS", "HEADER_CHECKS")]
    run([need("cmake"), "-S", ROOT, "-B", tmp_path / "install", *options])
    run(["cmake", "--install", tmp_path / "install", "--prefix", prefix])
    shutil.rmtree(tmp_path / "install")
    program = cmake(tmp_path / "build", [f"-DCMAKE_PREFIX_PATH={prefix}"])
    run_consumer(program, tmp_path)
    includes = (tmp_path / "build" / "CMakeCache.txt").read_text()
    assert str(prefix) in includes
    folder = prefix / "share" / "pkgconfig"
    flag, separate = run([need("pkg-config"), "--cflags", folder / "fastprof.pc"]).split()
    assert Path(flag[2:]).samefile(prefix / "include") and separate == "-DFASTPROF_SEPARATE"


def test_find_package_refuses_another_version(tmp_path: Path) -> None:
    (tmp_path / "CMakeLists.txt").write_text(
        "cmake_minimum_required(VERSION 3.21)\nproject(version LANGUAGES CXX)\n"
        "foreach(good 0 0.1 0.1.0)\n"
        "  find_package(fastprof ${good} REQUIRED)\nendforeach()\n"
        "foreach(bad 0.2 1.0 0.0.9 99)\n"
        "  set(fastprof_FOUND FALSE)\n  find_package(fastprof ${bad} QUIET)\n"
        "  if(fastprof_FOUND)\n    message(FATAL_ERROR ${bad})\n  endif()\nendforeach()\n"
    )
    run([need("cmake"), "-S", tmp_path, "-B", tmp_path / "b", f"-Dfastprof_DIR={ROOT / 'cmake'}"])


def test_find_package_from_this_python(tmp_path: Path) -> None:
    """An editable install answers with the source tree, so that edited headers are the ones compiled.

    The headers alone: test_two_translation_units compiles and runs the same by the same flags.
    """
    folder = run([sys.executable, "-m", "fastprof", "config", "--cmakedir"]).strip()
    flags = [f"-Dfastprof_DIR={folder}", "-DFASTPROF_TARGET=fastprof::header_only"]
    flags.append("-DCMAKE_EXPORT_COMPILE_COMMANDS=ON")
    run([need("cmake"), "-G", "Unix Makefiles", "-S", HERE, "-B", tmp_path, *flags])
    listed = json.loads((tmp_path / "compile_commands.json").read_bytes())
    commands = {Path(each["file"]): each["command"] for each in listed}
    for source in SOURCES:
        (include,) = re.findall(r"(?:-I|-isystem ) *(\S+)", commands[source])
        assert Path(include).samefile(INCLUDE) and "FASTPROF_SEPARATE" not in commands[source]


@pytest.mark.packaging
@pytest.mark.parametrize("whole", [False, pytest.param(True, marks=pytest.mark.nightly)])
def test_pip_install_with_build_isolation(tmp_path: Path, whole: bool) -> None:
    """From a copy of the sources into a fresh environment, as a user does it; then the C++ ways through it.

    Not whole: without _core, which takes five minutes to compile, and which the C++ ways do not need.
    """
    source, environment = tmp_path / "source", tmp_path / "environment"
    ignore = shutil.ignore_patterns(
        "build", ".venv", "out", ".git", "__pycache__", "*.so", ".mypy_cache"
    )
    shutil.copytree(ROOT, source, ignore=ignore, symlinks=True)
    run([sys.executable, "-m", "venv", environment])
    python = environment / "bin" / "python"
    clean = {k: v for k, v in os.environ.items() if k not in {"PYTHONPATH", "CMAKE_PREFIX_PATH"}}
    install = [python, "-m", "pip", "install", "--disable-pip-version-check", source]
    flags = "CMAKE_CXX_FLAGS_RELEASE=-O0;CMAKE_INTERPROCEDURAL_OPTIMIZATION=OFF"  # it is built, hardly run
    if not whole:
        flags += ";FASTPROF_BUILD_PYTHON=OFF"
    quickly = clean | {"SKBUILD_CMAKE_DEFINE": flags}
    result = subprocess.run(install, capture_output=True, text=True, env=quickly, timeout=1800)
    assert result.returncode == 0, result.stdout + result.stderr
    shutil.rmtree(source)

    if whole:
        code = "import fastprof, fastprof._core as c; print(fastprof.__version__, c.version)"
        assert len(set(run([python, "-c", code]).split())) == 1
    flag = run([python, "-m", "fastprof", "config", "--includes"]).strip()
    assert flag.startswith(f"-I{environment}")
    for query, name in (("--definitions", "."), ("--pkgconfigdir", "fastprof.pc")):
        path = Path(run([python, "-m", "fastprof", "config", query]).strip())
        assert path.is_relative_to(environment) and (path / name).exists()
    if whole:
        compiler = next((c for c in COMPILERS if shutil.which(c)), COMPILERS[0])
        program = build(compiler, tmp_path / "consumer", SOURCES, include=Path(flag[2:]))
        run_consumer(program, tmp_path)
    folder = run([python, "-m", "fastprof", "config", "--cmakedir"]).strip()
    assert folder.startswith(str(environment))
    run_consumer(cmake(tmp_path / "build", [f"-Dfastprof_DIR={folder}"]), tmp_path)


@pytest.mark.integrations
@pytest.mark.parametrize("linked", [False, pytest.param(True, marks=pytest.mark.nightly)])
def test_musl(tmp_path: Path, linked: bool) -> None:
    """musl: Debian's musl-gcc has no C++ library, so this uses the compiler that the Python package ziglang brings.

    It compiles the C and C++ libraries, too, when it links for the first time.
    """
    if importlib.util.find_spec("ziglang") is None:
        pytest.skip(
            "no C++ library for musl: musl-gcc compiles C only; `pip install ziglang` brings one"
        )
    program = tmp_path / "consumer"
    zig = [sys.executable, "-m", "ziglang", "c++", "-target", f"{platform.machine()}-linux-musl"]
    command = [*zig, "-std=c++17", *STRICT, f"-I{INCLUDE}", "-o", program]
    if not linked:
        run([*command, "-O0", "-fno-sanitize=all", "-c", SOURCES[0]], timeout_s=900)
        return
    run([*command, "-O2", *SOURCES, *LIBRARIES], timeout_s=900)
    run_consumer(program, tmp_path)
