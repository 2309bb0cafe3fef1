# SPDX-License-Identifier: Apache-2.0
"""Libraries that include only annotate.hpp, loaded before, with or after the library or program with the Session."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from compilers import COMPILERS, INCLUDE, compile_and_link, run
from library_host import SOURCES, check, steps

pytestmark = pytest.mark.compilers

Build = Callable[..., Path]
EVERYTHING = [
    "[OutOfMemory]", "[memory]", "alpha async", "alpha counter", "alpha in a signal handler", "alpha mark",
    "alpha operator", "flow",
]  # fmt: skip


@pytest.fixture(scope="module")
def build(tmp_path_factory: pytest.TempPathFactory) -> Build:
    """Compile files of tests/cpp/libraries; each combination is compiled once."""
    folder = tmp_path_factory.mktemp("annotated")

    def compile_once(name: str, *arguments: str | Path, compiler: str = "g++") -> Path:
        output = folder / f"{name}-{compiler.strip('+')}"
        if not output.exists():
            # Names of sources there, or paths of others and of objects.
            files = [a for a in arguments if isinstance(a, Path) or a.endswith(".cpp")]
            flags = ["-std=c++17", "-O0", f"-I{INCLUDE}", *(a for a in arguments if a not in files)]
            compile_and_link(compiler, output, [SOURCES / file for file in files], *map(str, flags))
        return output

    return compile_once


def annotated(build: Build, name: str, compiler: str = "g++") -> Path:
    flags = ("-shared", "-fPIC", "-DANNOTATE_ONLY", f'-DNAME="{name}"')
    return build(f"lib{name}.so", "library.cpp", *flags, compiler=compiler)


def profiler(build: Build, compiler: str = "g++") -> Path:
    """A library with a Session behind C functions: work(0) starts it, work(1) stops it and prints."""
    return build("libprofiler.so", "session_library.cpp", "-shared", "-fPIC", compiler=compiler)


def plain_program(build: Build) -> Path:
    return build("plain", "host.cpp", "-DPLAIN")


def whole_program(build: Build, name: str = "whole", *flags: str | Path) -> Path:
    return build(name, *flags, build("host.o", "host.cpp", "-c"))


def counts(name: str, count: int, session: str = "") -> list[str]:
    prefix = f"{session}: " if session else ""
    return [f"{prefix}{name}{kind} x{count}" for kind in ("", " args", " dynamic")]


def texts(session: str, name: str) -> list[str]:
    return [f"{session}: text={name} text"]


@pytest.mark.parametrize("compilers", [(a, b) for a in COMPILERS for b in COMPILERS])
def test_loaded_before_and_after_whoever_has_the_session(
    build: Build, compilers: tuple[str, str]
) -> None:
    """The program has no fastprof. A library opened before the profiler records as one opened after it."""
    lines = steps(
        plain_program(build),
        "open a {a} work a 7 open p {p} same a p work p 0 work a 2 open b {b} same b p work b 3 work p 1",
        a=annotated(build, "alpha", compilers[0]),
        b=annotated(build, "beta", compilers[0]),
        p=profiler(build, compilers[1]),
    )
    check(lines, "a p shared", "b p shared", *counts("alpha", 2), *counts("beta", 3))


def test_opened_by_a_program_with_the_session(build: Build) -> None:
    lines = steps(
        whole_program(build),
        "open a {a} same a leads a start s work a 1 open b {b} work b 2 stop s",
        a=annotated(build, "alpha"),
        b=annotated(build, "beta"),
    )
    expected = [
        line for n, c in (("alpha", 1), ("beta", 2)) for line in counts(n, c, "s") + texts("s", n)
    ]
    check(lines, "a shared", "a follows", *expected)


def test_everything_of_annotate(build: Build) -> None:
    lines = steps(
        plain_program(build),
        "open a {a} all a open p {p} work p 0 all a work p 1",
        a=annotated(build, "alpha"),
        p=profiler(build),
    )
    check(lines, *[f"{name} x{2 if name == 'flow' else 1}" for name in EVERYTHING])


def test_unloaded_while_it_waits_and_after(build: Build) -> None:
    """A waiting library leaves nothing behind; the names of one that has joined stay in the session."""
    lines = steps(
        plain_program(build),
        "open a {a} work a 1 close a open b {b} open p {p} work p 0 work b 4 close b open a {a} work a 2 work p 1",
        a=annotated(build, "alpha"),
        b=annotated(build, "beta"),
        p=profiler(build),
    )
    check(lines, "a gone", "b gone", *counts("beta", 4), *counts("alpha", 2))


def test_nobody_leads(build: Build) -> None:
    """Without a Session in the process nothing is recorded or shared, and nothing fails."""
    lines = steps(
        plain_program(build),
        "open a {a} open b {b} work a 3 all a all b same a b close a close b",
        a=annotated(build, "alpha"),
        b=annotated(build, "beta"),
    )
    check(lines, "a b apart", "a gone", "b gone")


def test_one_program_of_two_kinds_of_files(build: Build, tmp_path: Path) -> None:
    """A file that includes annotate.hpp records into the Session of another file, in either order of linking."""
    annotated_file = tmp_path / "annotated.cpp"
    annotated_file.write_text(
        '#include <fastprof/annotate.hpp>\nvoid annotated() { FASTPROF_RANGE("annotated"); }\n'
    )
    main_file = tmp_path / "main.cpp"
    main_file.write_text(
        "#include <fastprof/fastprof.hpp>\n#include <cstdio>\nvoid annotated();\n"
        "int main() {\n  fastprof::Session session;\n  session.start();\n  annotated();\n  session.stop();\n"
        '  std::printf("%zu\\n", session.capture().size());\n}\n'
    )
    parts = [build(f"{file.stem}.o", file, "-c") for file in (annotated_file, main_file)]
    for i, order in enumerate((parts, parts[::-1])):
        assert run([build(f"mixed{i}", *order)]).split() == ["1"]


@pytest.mark.parametrize("header", ["macros.hpp", "annotate.hpp", "recorder/hot_path/range.hpp"])
def test_no_header_with_ranges_records_nothing(build: Build, tmp_path: Path, header: str) -> None:
    """Whichever header a library includes for its range, the session records the range."""
    source = tmp_path / "library.cpp"
    body = (
        "fastprof::Range range(site);"
        if header.startswith("recorder")
        else 'FASTPROF_RANGE("only");'
    )
    site = (
        "static constexpr fastprof::Site site{1, fastprof::SiteKind::range, "
        'fastprof::RecordScope::USER_SCOPE, 0, 0, "only", "", "", "", 0, 0, nullptr, nullptr, -1, -1, 0};\n'
    )
    source.write_text(
        f"#include <fastprof/{header}>\n{site}"
        f'extern "C" __attribute__((visibility("default"))) void work(int) {{ (void)site; {body} }}\n'
    )
    library = build(f"lib{header.replace('/', '_')}.so", source, "-shared", "-fPIC")
    lines = steps(
        plain_program(build),
        "open a {a} open p {p} work p 0 work a 0 work p 1",
        a=library,
        p=profiler(build),
    )
    check(lines, "only x1")
