# SPDX-License-Identifier: Apache-2.0
"""docs/cpp.md: every program on the page compiles and runs, and Python records the annotated library."""

from __future__ import annotations

import ctypes
import re
import subprocess
import threading
from pathlib import Path

import pytest
from compilers import INCLUDE, compile_and_link

import fastprof

pytestmark = pytest.mark.compilers

ROOT = Path(__file__).resolve().parents[3]

BLOCKS = re.findall(r"```cpp\n(.*?)```", (ROOT / "docs" / "cpp.md").read_text(), re.DOTALL)
PROGRAMS = [block for block in BLOCKS if "int main()" in block]
# Parts of what each program prints, in the order of the page.
PRINTED = ["step", "matmul: 2 inputs, sequence number 7", "read(9007199254740993) took", "",
           "64 bytes", "out_of_memory [OutOfMemory]", "threads sampled"]  # fmt: skip

LIBRARY = r"""
#include <fastprof/fastprof.hpp>
using namespace fastprof;
#define SHOWN extern "C" __attribute__((visibility("default")))
SHOWN uint64_t forward() {
  const int64_t a[2] = {3, 4}, b[2] = {4, 5}, strides[2] = {4, 1};
  const TensorDescription x{Span<const int64_t>(a), Span<const int64_t>(strides), DType::float32,
                            {}, nullptr};
  const TensorDescription y{Span<const int64_t>(b), {}, DType::undefined, {}, nullptr};
  FASTPROF_RECORD_FUNCTION("aten::mm", inputs(x, y, 2), kwinputs({{"mode", "fast"}}),
                           sequence_number(7), node_id(3), overload_name("out"));
  FASTPROF_RANGE_ARGS("range", "big", int64_t{9007199254740993}, "huge",
                      uint64_t{18446744073709551615u});
  return current_thread_id();
}
SHOWN void backward(uint64_t thread) {
  FASTPROF_RECORD_FUNCTION_WITH_SCOPE(RecordScope::BACKWARD_FUNCTION, "MmBackward0",
                                      sequence_number(7), forward_thread_id(thread));
}
"""


def compile_to(output: Path, text: str, *flags: str) -> Path:
    source = output.with_suffix(".cpp")
    source.write_text(text)
    strict = ("-O0", "-Wall", "-Wextra", "-Werror")
    return compile_and_link("g++", output, [source], "-std=c++17", *strict, f"-I{INCLUDE}", *flags)


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Compile all programs of the page into one executable, which runs one of them by number."""
    headers = sorted(set(re.findall(r"#include .*\n", "".join(PROGRAMS))))
    bodies = [re.sub(r"#include .*\n", "", text) for text in PROGRAMS]
    parts = [
        f"namespace program_{i} {{\n{body.replace('int main()', 'int run()')}}}\n"
        for i, body in enumerate(bodies)
    ]
    cases = "".join(f"case {i}: program_{i}::run(); break;\n" for i in range(len(parts)))
    main = f"int main(int, char** argv) {{ switch (std::atoi(argv[1])) {{ {cases} }} }}\n"
    text = "".join([*headers, "#include <cstdlib>\n", *parts, main])
    # Only main() may lack a return statement.
    folder = tmp_path_factory.mktemp("page")
    return compile_to(folder / "programs", re.sub(r"\n}\n}\n", "\nreturn 0;\n}\n}\n", text))


@pytest.mark.parametrize("index", range(len(PRINTED)))
def test_each_program_of_the_page_runs(index: int, programs: Path, tmp_path: Path) -> None:
    assert len(PROGRAMS) == len(PRINTED)
    done = subprocess.run(
        [programs, str(index)], cwd=tmp_path, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    assert PRINTED[index] in done.stdout


def test_an_annotated_library_in_a_profile(tmp_path: Path) -> None:
    path = compile_to(tmp_path / "lib.so", LIBRARY, "-shared", "-fPIC", "-fvisibility=hidden")
    library = ctypes.CDLL(str(path))
    library.forward.restype = ctypes.c_uint64
    library.backward.argtypes = [ctypes.c_uint64]

    def profiled(**options: bool) -> fastprof.profile:
        with fastprof.profile(**options) as prof:
            thread = threading.Thread(target=library.backward, args=(library.forward(),))
            thread.start()
            thread.join()
        return prof

    prof = profiled(record_shapes=True, with_flops=True)
    mm, range_, backward = prof.events()
    assert mm.input_shapes == [[3, 4], [4, 5], []]
    assert mm.input_dtypes == ["float", "", "Scalar"]
    assert mm.structured_input_strides == [[4, 1], [], []]
    assert mm.concrete_inputs == [None, None, 2]
    assert mm.kwinputs == {"mode": "fast"}
    assert (mm.sequence_nr, mm.node_id, mm.overload_name, mm.flops) == (7, 3, "out", 120)
    assert range_.kwinputs == {"big": 9007199254740993, "huge": 18446744073709551615}
    assert (backward.sequence_nr, backward.fwd_thread) == (7, mm.thread)
    assert backward.scope == 1
    assert "[[3, 4], [4, 5], []]" in prof.key_averages(group_by_input_shape=True).table()
    prof.export_chrome_trace(tmp_path / "t.json")
    text = (tmp_path / "t.json").read_text()
    assert text.count('"cat":"fwdbwd"') == 2 and '"Overload name":"out"' in text
    prof.export_perfetto_trace(tmp_path / "t.pftrace")
    for name in ("t.json", "t.pftrace"):
        again = fastprof.EventList.from_table(fastprof.load(tmp_path / name))
        found = next(e for e in again if e.name == "aten::mm")
        assert found.input_shapes == mm.input_shapes
        assert (found.sequence_nr, found.node_id, found.overload_name) == (7, 3, "out")
    plain = profiled().events()[0]
    assert plain.input_shapes == [] and plain.kwinputs == {}
    assert (plain.sequence_nr, plain.overload_name) == (7, "out")
