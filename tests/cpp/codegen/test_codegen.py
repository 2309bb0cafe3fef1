# SPDX-License-Identifier: Apache-2.0
"""An annotation that is off is one or two loads and a branch, in the code that g++ and clang++ really make."""

from __future__ import annotations

import platform
from pathlib import Path

import pytest
from compilers import EITHER_COMPILER, build
from disassembly import Instruction, Program

SOURCE = Path(__file__).resolve().parent / "off_range.cpp"

pytestmark = [
    pytest.mark.compilers,
    pytest.mark.skipif(platform.machine() != "x86_64", reason="reads x86-64 code only"),
]

# As a part of a library, and as a part of a program (no position-independent code).
KINDS = {
    "library": ["-shared", "-fPIC", "-fvisibility=hidden"],
    "program": ["-fno-pie", "-no-pie", "-Wl,--export-dynamic", "-DWITH_MAIN"],
}


SINGLE = ["only_range", "only_mark", "only_counter", "range_with_arguments"]


def without_frame(path: list[Instruction]) -> list[Instruction]:
    """Leave out the return and the stack frame: clang++ makes one for the sake of the cold call, g++ does not."""
    frame = {"push", "pop", "ret"}
    return [
        i
        for i in path
        if i.mnemonic not in frame
        and not (i.mnemonic in {"sub", "add"} and i.operands.endswith(",%rsp"))
    ]


def check_path(path: list[Instruction], annotations: int, branches: int) -> None:
    text = "\n".join(f"{i.mnemonic} {i.operands}" for i in path)
    assert sum(i.is_conditional for i in path) <= branches, text
    assert sum(i.reads_memory for i in path) <= 2 * annotations, text
    # No thread-local is read, nothing is locked or fenced, no clock is read.
    assert not any("%fs" in i.operands for i in path), text
    costly = {"lock", "mfence", "lfence", "rdtsc", "rdtscp", "xchg"}
    assert not any(i.mnemonic in costly for i in path), text


@pytest.mark.parametrize("kind", KINDS)
@EITHER_COMPILER
def test_what_is_off_is_two_loads_and_a_branch(tmp_path: Path, compiler: str, kind: str) -> None:
    program = Program(build(compiler, tmp_path / kind, [SOURCE], flags=["-O2", *KINDS[kind]]))
    assert [i.mnemonic for i in program.quietest_path("nothing")] == ["ret"]
    for function in SINGLE:
        path = program.quietest_path(function)
        check_path(path, annotations=1, branches=1)
        # Load of the state's address, load of the mask, test, branch; at most one copy of a register.
        assert len(without_frame(path)) <= 5, f"{function}: {path}"
    # The second range begins while the first is open: one more test, of whether the first was recorded.
    check_path(program.quietest_path("two_ranges"), annotations=2, branches=3)


def test_the_reader_sees_what_it_must_reject(tmp_path: Path) -> None:
    """The same checks on code that breaks them."""
    source = tmp_path / "bad.cpp"
    source.write_text(
        "#include <atomic>\n#include <x86intrin.h>\n"
        "std::atomic<int> a; thread_local int t; volatile int v;\n"
        'extern "C" void locked() { a.fetch_add(1); }\n'
        'extern "C" unsigned long long clock_read() { return __rdtsc(); }\n'
        'extern "C" int thread_local_read() { return t; }\n'
        'extern "C" int three_loads() { return v + v + v; }\n'
        'extern "C" void* calls() { return new int(v); }\n'
        "int main() { return 0; }\n"
    )
    program = Program(build("g++", tmp_path / "bad", [source], flags=["-O2", *KINDS["program"]]))
    for function in ("locked", "clock_read", "thread_local_read", "three_loads"):
        with pytest.raises(AssertionError):
            check_path(program.quietest_path(function), annotations=1, branches=1)
    with pytest.raises(LookupError):
        program.quietest_path("calls")
