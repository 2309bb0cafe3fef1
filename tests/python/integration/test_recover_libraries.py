# SPDX-License-Identifier: Apache-2.0
"""Backing files contain the sites of every library, loaded before or during the session, or unloaded since."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

import fastprof

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tools"))
from compilers import EITHER_COMPILER, build

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
KINDS = {
    "pie": ["-fPIE", "-pie"],
    "fixed": ["-fno-pie", "-no-pie"],
    "unoptimised": ["-O0"],
    "joined text": ["-Wl,-z,noseparate-code", "-fno-pie", "-no-pie"],
}


@pytest.mark.parametrize("kind", KINDS)
@EITHER_COMPILER
def test_sites_of_all_libraries(tmp_path: Path, compiler: str, kind: str) -> None:
    (tmp_path / "library.cpp").write_text(LIBRARY)
    (tmp_path / "program.cpp").write_text(PROGRAM)
    libraries = ["before", "first", "second", "third"]
    for name in libraries:
        flags = ["-shared", "-fPIC", "-O2", f'-DNAME="{name}"']
        build(compiler, tmp_path / f"lib{name}.so", [tmp_path / "library.cpp"], flags=flags)
    program = build(
        compiler, tmp_path / "program", [tmp_path / "program.cpp"], flags=["-O2", *KINDS[kind]]
    )
    path = tmp_path / "records"
    paths = [str(tmp_path / f"lib{name}.so") for name in libraries]
    result = subprocess.run([str(program), str(path), *paths], timeout=60)
    assert result.returncode == -signal.SIGKILL
    table = fastprof.recover(path)
    facts = table.metadata["recovered"]
    assert (facts["unread_chunks"], facts["unknown_texts"], facts["damaged"]) == (0, 0, 0)
    names = [table.sites.names[site] for site in table.column("site").tolist()]
    expected = ["program"]
    for name in libraries:
        kinds = ["", " template", " template", " inline", " mark", " counter"]
        expected += [name + kind for kind in kinds]
    assert names == [*expected, "open"]
    texts = {event.name: event.kwinputs for event in fastprof.EventList.from_table(table)}
    for name in libraries:
        assert texts[f"{name} template"] == {"value": 0.5, "text": f"{name} text"}
