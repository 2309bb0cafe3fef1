# SPDX-License-Identifier: Apache-2.0
"""Backing files contain the sites of every library, loaded before or during the session, or unloaded since."""

from __future__ import annotations

import signal
import subprocess
from functools import cache
from pathlib import Path

import pytest
from compilers import EITHER_COMPILER, build

import fastprof

pytestmark = pytest.mark.compilers

LIBRARY = """
#include <fastprof/annotate.hpp>
namespace {
struct Worker {
  template <class Value>
  static void range(Value value) {
    FASTPROF_RANGE_ARGS(NAME " template", "value", value, "text", NAME " text");
  }
};
}
inline void shared() { FASTPROF_RANGE(NAME " inline"); }
extern "C" __attribute__((visibility("default"))) void work() {
  FASTPROF_RANGE(NAME);
  Worker::range(7);
  Worker::range(0.5);
  shared();
  FASTPROF_MARK(NAME " mark");
  FASTPROF_COUNTER(NAME " counter", 3);
}
"""
PROGRAM = """
#include <dlfcn.h>
#include <signal.h>

#include <fastprof/fastprof.hpp>
#include <string>
static void* worked(const char* path) {
  void* library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) abort();
  void (*work)();
  *reinterpret_cast<void**>(&work) = dlsym(library, "work");
  work();
  return library;
}
int main(int argc, char** argv) {
  if (argc < 4) return 1;
  worked(argv[2]);
  fastprof::SessionOptions options;
  options.backing_file = argv[1];
  fastprof::Session session(options);
  session.start();
  { FASTPROF_RANGE("program"); }
  worked(argv[2]);
  // The others take each other's addresses.
  for (int i = 3; i < argc; ++i) dlclose(worked(argv[i]));
  FASTPROF_RANGE("open");
  raise(SIGKILL);
}
"""
# How the program is compiled and how it is linked.
KINDS = {
    "pie": (["-O0", "-fPIE"], ["-pie"]),
    "fixed": (["-O2", "-fno-pie"], ["-no-pie"]),
    "joined text": (["-O2", "-fno-pie"], ["-no-pie", "-Wl,-z,noseparate-code"]),
}
NAMES = ["before", "first", "second", "third"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("recover")
    (made / "library.cpp").write_text(LIBRARY)
    (made / "program.cpp").write_text(PROGRAM)
    return made


@cache
def libraries(folder: Path, compiler: str) -> list[Path]:
    def built(name: str) -> Path:
        flags = ["-shared", "-fPIC", "-O2", f'-DNAME="{name}"']
        return build(
            compiler, folder / f"lib{name}-{compiler}.so", [folder / "library.cpp"], flags=flags
        )

    return [built(name) for name in NAMES]


@cache
def program_object(folder: Path, compiler: str, *flags: str) -> Path:
    output = folder / f"program-{compiler}{''.join(flags)}.o"
    return build(compiler, output, [folder / "program.cpp"], flags=["-c", *flags])


@pytest.mark.parametrize("kind", KINDS)
@EITHER_COMPILER
def test_sites_of_all_libraries(folder: Path, tmp_path: Path, compiler: str, kind: str) -> None:
    compile_flags, link_flags = KINDS[kind]
    made = program_object(folder, compiler, *compile_flags)
    program = build(compiler, tmp_path / "program", [made], flags=link_flags)
    path = tmp_path / "records"
    paths = [str(library) for library in libraries(folder, compiler)]
    result = subprocess.run([str(program), str(path), *paths], timeout=60)
    assert result.returncode == -signal.SIGKILL
    table = fastprof.recover(path)
    facts = table.metadata["recovered"]
    assert (facts["unread_chunks"], facts["unknown_texts"], facts["damaged"]) == (0, 0, 0)
    names = [table.sites.names[site] for site in table.column("site").tolist()]
    expected = ["program"]
    for name in NAMES:
        kinds = ["", " template", " template", " inline", " mark", " counter"]
        expected += [name + kind for kind in kinds]
    assert names == [*expected, "open"]
    texts = {event.name: event.kwinputs for event in fastprof.EventList.from_table(table)}
    for name in NAMES:
        assert texts[f"{name} template"] == {"value": 0.5, "text": f"{name} text"}
