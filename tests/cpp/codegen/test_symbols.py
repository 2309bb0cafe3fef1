# SPDX-License-Identifier: Apache-2.0
"""An annotated library exports nothing of ours and nothing that would keep it from being unloaded."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest
from compilers import EITHER_COMPILER, build, need, run

HERE = Path(__file__).resolve().parent
pytestmark = pytest.mark.compilers


# Instantiations of the standard library over our types are exported by libstdc++ whatever we say; the version in our
# inline namespace keeps those of different headers apart.
STANDARD_LIBRARY = re.compile(r"_Z(T[VISH]|GV)?(N[KVRO]*)?(St|S[absiod]|9__gnu_cxx)")
# With clang the site in an inline function has the function's visibility, as each of its statics: a weak constant
# under the function's name, which merges with the same function of the same header only.
STATIC_OF_A_FUNCTION = re.compile(r"_ZZ(?!N[KVRO]*8fastprof).*E\d+fastprof_\w+$")
OURS = re.compile(r"8fastprof|fastprof_")


def symbols(library: Path, *flags: str) -> list[tuple[str, str]]:
    """Return (type letter, mangled name) of each defined symbol."""
    lines = run([need("nm"), "--defined-only", *flags, library]).splitlines()
    return [
        (parts[1], parts[2])
        for parts in (line.split(maxsplit=2) for line in lines)
        if len(parts) == 3
    ]


@pytest.fixture(scope="module")
def annotated(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str, str], Path]:
    """Build library.cpp with a compiler and a level of optimisation, each pair once."""
    folder = tmp_path_factory.mktemp("annotated")

    @cache
    def built(compiler: str, level: str) -> Path:
        flags = [level, "-shared", "-fPIC", "-fvisibility=default"]
        output = folder / f"{compiler.strip('+')}{level}.so"
        return build(compiler, output, [HERE / "library.cpp"], flags=flags)

    return built


@pytest.mark.parametrize("level", ["-O0", "-O2"])
@EITHER_COMPILER
def test_a_library_exports_nothing_of_ours(
    annotated: Callable[[str, str], Path], compiler: str, level: str
) -> None:
    library = annotated(compiler, level)
    exported = symbols(library, "-D")
    everything = symbols(library)
    assert any("library_entry" in name for _, name in exported)  # the lists are not empty
    assert any(OURS.search(name) for _, name in everything)
    ours = [
        (letter, name)
        for letter, name in exported
        if OURS.search(name)
        and not STANDARD_LIBRARY.match(name)
        and not (compiler == "clang++" and letter == "V" and STATIC_OF_A_FUNCTION.match(name))
    ]
    assert ours == []
    assert [name for letter, name in everything if letter == "u" and OURS.search(name)] == []


@pytest.mark.parametrize("level", ["-O0", "-O2"])
@EITHER_COMPILER
def test_a_library_with_macros_alone_has_no_unique_symbol(
    tmp_path: Path, compiler: str, level: str
) -> None:
    """One unique symbol, of anybody, and dlclose no longer unloads the library."""
    source = tmp_path / "annotated.cpp"
    source.write_text(
        "#include <fastprof/fastprof.hpp>\n"
        "int annotated(int x) {\n"
        "  FASTPROF_FUNCTION();\n"
        '  FASTPROF_RANGE("range");\n'
        '  FASTPROF_RANGE_DYNAMIC("dynamic");\n'
        '  FASTPROF_RANGE_ARGS("arguments", "x", x);\n'
        '  FASTPROF_COUNTER("counter", x);\n'
        '  FASTPROF_MARK("mark");\n'
        "  return x;\n"
        "}\n"
    )
    flags = [level, "-shared", "-fPIC", "-fvisibility=default"]
    library = build(compiler, tmp_path / "annotated.so", [source], flags=flags)
    found = [name for letter, name in symbols(library) if letter == "u"]
    assert found == []


@EITHER_COMPILER
def test_no_initial_exec_thread_local_in_a_library(
    annotated: Callable[[str, str], Path], compiler: str
) -> None:
    """Such a block is taken from a small fixed surplus: after some dozen libraries dlopen fails."""
    library = annotated(compiler, "-O2")
    readelf = need("readelf")
    assert "STATIC_TLS" not in run([readelf, "-d", library])
    relocations = run([readelf, "-r", "-W", library])
    assert "R_X86_64_RELATIVE" in relocations or "R_AARCH64_RELATIVE" in relocations
    assert "TPOFF" not in relocations.replace("DTPOFF", "")
    assert "TLS_TPREL" not in relocations
