# SPDX-License-Identifier: Apache-2.0
"""Builds of other people that compile Session once: a CMake project, a Makefile, and pkg-config."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import pytest
from compilers import ROOT, need, run

import fastprof

PROGRAM = """
#include <fastprof/fastprof.hpp>
#include <cstdio>
int main() {
  fastprof::Session session;
  session.start();
  { FASTPROF_RANGE("step"); }
  session.stop();
  std::puts(session.summary().to_string().c_str());
  session.write_chrome_trace("trace.json");
}
"""
# Two programs with a Session; a library that annotates and is exported for other projects.
PROJECT = """
cmake_minimum_required(VERSION 3.21)
project(user LANGUAGES CXX)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
FASTPROF
add_executable(one main.cpp)
add_executable(two main.cpp)
target_link_libraries(one PRIVATE fastprof::fastprof)
target_link_libraries(two PRIVATE fastprof::fastprof)
add_library(annotated STATIC annotated.cpp)
target_link_libraries(annotated PUBLIC fastprof::header_only)
"""
EXPORT = """
add_library(exported STATIC annotated.cpp)
target_link_libraries(exported PRIVATE fastprof::fastprof)
install(TARGETS exported EXPORT user)
install(EXPORT user DESTINATION share/cmake/user)
"""


def run_program(program: Path) -> None:
    assert "step" in run([program], cwd=program.parent)
    events = json.loads((program.parent / "trace.json").read_bytes())["traceEvents"]
    assert "step" in {event.get("name") for event in events}


@pytest.mark.compilers
@pytest.mark.parametrize("way", ["find_package", "add_subdirectory"])
def test_cmake_compiles_the_definitions_once_with_the_flags_of_the_project(
    tmp_path: Path, way: str
) -> None:
    found = f'set(fastprof_DIR "{ROOT}/cmake")\nfind_package(fastprof REQUIRED)'
    text = PROJECT.replace("FASTPROF\n", f"{found}\n")
    if way == "add_subdirectory":
        text = PROJECT.replace("FASTPROF\n", f'add_subdirectory("{ROOT}" fastprof)\n')
    else:
        text += EXPORT
    (tmp_path / "CMakeLists.txt").write_text(text)
    (tmp_path / "main.cpp").write_text(PROGRAM)
    (tmp_path / "annotated.cpp").write_text(
        '#include <fastprof/annotate.hpp>\nvoid f();\nvoid f() { FASTPROF_RANGE("f"); }\n'
    )
    build = tmp_path / "build"
    run([need("cmake"), "-S", tmp_path, "-B", build, "-DCMAKE_CXX_FLAGS=-O0 -DFLAG_OF_THE_USER"])
    commands = json.loads((build / "compile_commands.json").read_bytes())
    (definitions,) = (c["command"] for c in commands if c["file"].endswith("/definitions.cpp"))
    assert "-O0 -DFLAG_OF_THE_USER" in definitions
    separate = {Path(c["file"]).name: "-DFASTPROF_SEPARATE" in c["command"] for c in commands}
    assert separate["main.cpp"] and separate["definitions.cpp"]
    assert way == "find_package" or not separate["annotated.cpp"]


@pytest.mark.compilers
def test_the_makefile_of_the_documentation(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "cpp.md").read_text()
    (text,) = re.findall(r"^```make\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    text = text.replace("python -m", f"{sys.executable} -m").replace("-O2", "-O0")
    (tmp_path / "Makefile").write_text(text)
    (tmp_path / "main.cpp").write_text(PROGRAM)
    run([need("make"), "-C", tmp_path], timeout_s=1200)
    run_program(tmp_path / "program")
    (tmp_path / "main.cpp").write_text(PROGRAM.replace('"step"', '"second step"'))
    assert "definitions.cpp" not in run(["make", "-C", tmp_path], timeout_s=1200)
    assert "second step" in run([tmp_path / "program"], cwd=tmp_path)


def test_pkg_config_prints_what_the_command_prints(monkeypatch: pytest.MonkeyPatch) -> None:
    def ask(*words: str) -> str:
        return run([sys.executable, "-m", "fastprof", "config", *words]).strip()

    monkeypatch.setenv("PKG_CONFIG_PATH", ask("--pkgconfigdir"))
    query = [need("pkg-config"), "fastprof"]
    assert run([*query, "--modversion"]).strip() == fastprof.__version__
    include, separate = run([*query, "--cflags"]).split()
    own_include, own_separate = ask("--cflags").split()
    assert separate == own_separate and Path(include[2:]).samefile(own_include[2:])
    assert run([*query, "--libs"]).split() == ask("--libs").split()
    definitions = run([*query, "--variable=definitions"]).strip()
    assert Path(definitions).samefile(ask("--definitions"))
