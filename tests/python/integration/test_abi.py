# SPDX-License-Identifier: Apache-2.0
"""Libraries of this and a newer minor ABI share one recorder, in each order, whoever leads."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest
from compilers import INCLUDE, compile_and_link, need, run
from library_host import SOURCES, check, steps

pytestmark = pytest.mark.compilers

MINORS = {"current": 0, "newer": 1}
TIMES = 3


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("abi")


def built(folder: Path, output: str, source: str, *flags: str) -> Path:
    path = folder / output
    if not path.exists():
        command = ("-std=c++17", "-O0", f"-I{INCLUDE}", *flags)
        compile_and_link("g++", path, [SOURCES / source], *command)
    return path


def library(folder: Path, age: str) -> Path:
    minor = f"-DFASTPROF_ABI_MINOR={MINORS[age]}"
    return built(
        folder, f"lib{age}.so", "abi_library.cpp", "-shared", "-fPIC", f'-DNAME="{age}"', minor
    )


def profiler(folder: Path, age: str) -> Path:
    minor = f"-DFASTPROF_ABI_MINOR={MINORS[age]}"
    return built(folder, f"libprofiler-{age}.so", "session_library.cpp", "-shared", "-fPIC", minor)


def recorded(age: str) -> list[str]:
    """Return what a session records of work(TIMES) in a library of this minor version. The program leads."""
    lines = [f"s: {age} x{TIMES}", f"s: {age} function x{TIMES}"]
    lines += [f"s: {age} function #{40 + i}" for i in range(TIMES)]
    if age == "newer":
        lines += [f"s: {age} later x{TIMES}", "s: dropped", f"s: cause_10 x{TIMES}"]
    return lines


@pytest.mark.parametrize("order", [*itertools.permutations(MINORS)], ids="-".join)
def test_a_program_that_leads(folder: Path, order: tuple[str, ...]) -> None:
    host = built(folder, "host", "host.cpp")
    opened = [f"open {age} {library(folder, age)}" for age in order]
    worked = [f"work {age} {TIMES}" for age in order]
    script = f"start s {' '.join(opened)} {' '.join(worked)} others stop s"
    check(steps(host, script), *[line for age in order for line in recorded(age)])


@pytest.mark.parametrize("reader", MINORS)
@pytest.mark.parametrize("order", [*itertools.permutations(MINORS, 2)], ids="-".join)
def test_the_first_library_leads(folder: Path, order: tuple[str, str], reader: str) -> None:
    """In a program without fastprof, with a session of any age."""
    plain = built(folder, "plain", "host.cpp", "-DPLAIN")
    opened = [f"open {age} {library(folder, age)}" for age in order]
    worked = [f"work {age} {TIMES}" for age in order]
    script = (
        f"{' '.join(opened)} leads {order[0]} open p {profiler(folder, reader)} work p 0"
        f" {' '.join(worked)} same {order[1]} p work p 1"
    )
    names = [f"{age}{kind} x{TIMES}" for age in order for kind in ("", " function")]
    names += [f"newer later x{TIMES}"] if "newer" in order else []
    check(steps(plain, script), f"{order[0]} leads", f"{order[1]} p shared", *names)


def test_a_leader_that_is_too_small_is_not_followed(folder: Path) -> None:
    """Its State lacks fields that newer libraries use: those share a recorder without it."""
    plain = built(folder, "plain", "host.cpp", "-DPLAIN")
    data = bytearray(library(folder, "newer").read_bytes())
    magic = b"fastprof\x01state\r\n"
    assert data.count(magic) == 1
    size = data.index(magic) + len(magic) + 4
    data[size : size + 4] = (64).to_bytes(4, "little")
    small = folder / "libsmall.so"
    small.write_bytes(data)
    script = (
        f"open x {small} open a {library(folder, 'current')} open p {profiler(folder, 'current')}"
        f" leads x same x a leads a same a p work p 0 work x 2 work a {TIMES} work p 1"
    )
    led = ("x leads", "x a apart", "a leads", "a p shared")
    check(steps(plain, script), *led, f"current x{TIMES}", f"current function x{TIMES}")


def test_the_layout_is_asserted(tmp_path: Path) -> None:
    """A field inserted before another one does not compile."""
    state = Path("fastprof") / "recorder" / "state" / "state.hpp"
    (tmp_path / state).parent.mkdir(parents=True)
    source = tmp_path / "file.cpp"
    source.write_text("#include <fastprof/recorder/state/abi_layout.hpp>\n")
    command = [need("g++"), "-std=c++17", "-fsyntax-only", f"-I{tmp_path}", f"-I{INCLUDE}", source]
    header = (INCLUDE / state).read_text()
    (tmp_path / state).write_text(header)
    run(command)
    field = "  uint64_t session_epoch = 0;"
    assert header.count(field) == 1
    (tmp_path / state).write_text(header.replace(field, f"  uint64_t extra = 0;\n{field}"))
    with pytest.raises(pytest.fail.Exception, match="State is ABI"):
        run(command)
