# SPDX-License-Identifier: Apache-2.0
"""The parts of `make wheels` that need no old system: symbol versions, apt sources, what it says when it cannot run."""

from __future__ import annotations

import ctypes
import os
import platform
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from compilers import need, run

ROOT = Path(__file__).resolve().parents[2]
PACKAGING = ROOT / "packaging"
sys.path.insert(0, str(PACKAGING))

import commands  # noqa: E402
import interpreters  # noqa: E402
import old_system  # noqa: E402
import older_glibc  # noqa: E402

X86_64 = pytest.mark.skipif(platform.machine() != "x86_64", reason="wheels are made on x86-64")


def needed_versions(library: Path) -> set[str]:
    """Return the glibc versions that ``library`` refers to, as binutils reads them."""
    words = run(["objdump", "-T", library]).replace("(", " ").replace(")", " ").split()
    return {word for word in words if word.startswith("GLIBC_")}


@X86_64
def test_relaxed_libraries_refer_to_no_newer_glibc_and_still_load(tmp_path: Path) -> None:
    need("objdump")
    source, library = tmp_path / "f.cpp", tmp_path / "libf.so"
    source.write_text(
        "#include <cmath>\n#include <dlfcn.h>\n#include <pthread.h>\n"
        'extern "C" double f(double x) { static pthread_once_t once = PTHREAD_ONCE_INIT;\n'
        '  pthread_once(&once, [] {}); return std::pow(x, 3) + (dlsym(nullptr, "none") != nullptr); }\n'
    )
    run([need("g++"), "-O1", "-fPIC", "-shared", source, "-o", library, "-lm", "-ldl", "-pthread"])
    before = needed_versions(library)
    if not any(map(older_glibc.too_new, before)):
        pytest.skip(
            f"the C library here has no newer versions of these functions: {sorted(before)}"
        )
    data = bytearray(library.read_bytes())
    dropped = older_glibc.relax(data)
    assert dropped == {version for version in before if older_glibc.too_new(version)}
    library.write_bytes(data)
    after = needed_versions(library)
    assert not any(map(older_glibc.too_new, after))
    assert older_glibc.relax(bytearray(data)) == set()  # nothing is left to do
    f = ctypes.CDLL(str(library)).f
    f.restype, f.argtypes = ctypes.c_double, [ctypes.c_double]
    assert f(3.0) == 27.0


def test_versions_after_2_28_are_too_new() -> None:
    assert [v for v in ("GLIBC_2.2.5", "GLIBC_2.28", "GLIBC_2.29", "GLIBC_2.4", "GLIBC_PRIVATE", "GLIBC_ABI_DT_RELR")
            if older_glibc.too_new(v)] == ["GLIBC_2.29", "GLIBC_ABI_DT_RELR"]  # fmt: skip
    assert older_glibc.elf_hash(b"GLIBC_2.2.5") == 0x09691A75
    assert older_glibc.relax(bytearray(b"#!/bin/sh\n")) == set()


@pytest.mark.parametrize(
    "text",
    [
        "Types: deb\n# URIs: not this\nURIs: http://mirror.example/debian\nSuites: x\n",
        "deb [signed-by=/a.gpg] http://mirror.example/debian bookworm main\n",
        "deb http://mirror.example/debian bookworm main\n",
    ],
)
def test_the_mirror_is_read_from_either_format_of_apt(text: str, tmp_path: Path) -> None:
    (tmp_path / "debian.sources").write_text(text)
    assert (
        old_system.mirror([tmp_path / "missing.list", tmp_path / "debian.sources"])
        == "http://mirror.example/debian"
    )
    with pytest.raises(old_system.Unavailable, match="no Debian mirror"):
        old_system.mirror([tmp_path / "missing.list"])


# A build as ninja runs it: a child in a process group of its own that takes no notice of SIGTERM. Writes both numbers.
BUILD = """
import os, signal, sys, time
child = os.fork()
if child == 0:
    os.setpgid(0, 0)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    with open(sys.argv[1] + ".part", "w") as out:
        out.write(f"{os.getppid()} {os.getpid()}")
    os.rename(sys.argv[1] + ".part", sys.argv[1])
time.sleep(600)
"""


def wait_for(path: Path) -> list[int]:
    """Return the numbers in a file that another process is about to write."""
    limit = time.monotonic() + 120
    while not path.exists():
        assert time.monotonic() < limit, f"{path} was not written"
        time.sleep(0.01)
    return [int(word) for word in path.read_text().split()]


def alive(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def test_a_command_beyond_its_limit_leaves_no_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    there: list[bool] = []

    def limit_is_reached(*_: object, **__: object) -> None:  # when the build runs
        there.extend(alive(process) for process in wait_for(tmp_path / "started"))
        raise subprocess.TimeoutExpired("build", 1)

    monkeypatch.setattr(commands, "GRACE_S", 0.5)
    monkeypatch.setattr(subprocess.Popen, "communicate", limit_is_reached)
    with pytest.raises(subprocess.TimeoutExpired):
        commands.run(sys.executable, "-c", BUILD, tmp_path / "started")
    assert there == [True, True]
    assert [alive(process) for process in wait_for(tmp_path / "started")] == [False, False]


PROGRAM = """
import os, signal, subprocess, sys, time
sys.path.insert(0, sys.argv[1])
import commands
commands.exit_on_signals()
commands.GRACE_S = 0.5
if sys.argv[4] == "while it starts":
    class Popen(subprocess.Popen):
        def __init__(self, *arguments, **options):
            super().__init__(*arguments, **options)
            while not os.path.exists(sys.argv[3]):
                time.sleep(0.01)
            os.kill(os.getpid(), signal.SIGTERM)
            time.sleep(0.01)
    commands.subprocess.Popen = Popen
commands.run(sys.executable, "-c", sys.argv[2], sys.argv[3])
"""


@pytest.mark.parametrize("when", ["while it runs", "while it starts"])
def test_a_program_that_is_told_to_end_takes_its_commands_with_it(
    when: str, tmp_path: Path
) -> None:
    arguments = [str(PACKAGING), BUILD, str(tmp_path / "started"), when]
    with subprocess.Popen([sys.executable, "-c", PROGRAM, *arguments]) as process:
        started = wait_for(tmp_path / "started")
        if when == "while it runs":
            process.terminate()
        assert process.wait(timeout=120) == 128 + signal.SIGTERM
    assert len(started) == 2 and not any(alive(number) for number in started)


def test_commands_return_what_they_print_or_raise_with_its_end() -> None:
    assert commands.run("sh", "-c", "echo said") == "said\n"
    with pytest.raises(commands.CommandFailed, match=r"exit status 3\nout\nerr"):
        commands.run("sh", "-c", "echo out; echo err >&2; exit 3")


def test_wheels_name_their_interpreter(tmp_path: Path) -> None:
    here = f"{sys.version_info[0]}{sys.version_info[1]}"
    wheel = tmp_path / f"fastprof-0.1.0-cp{here}-cp{here}-manylinux_2_28_x86_64.whl"
    with pytest.raises(commands.Unavailable, match="is no wheel"):
        interpreters.version_of(wheel)  # not there
    wheel.touch()
    version = interpreters.version_of(wheel)
    assert version == f"{sys.version_info[0]}.{sys.version_info[1]}"
    python = interpreters.interpreter_for(wheel)
    code = "import sys; print('%d.%d' % sys.version_info[:2])"
    assert run([python, "-c", code]).strip() == version
    other = tmp_path / "fastprof-0.1.0-cp399-cp399-linux_x86_64.whl"
    other.touch()
    with pytest.raises(commands.Unavailable, match=r"no CPython 3\.99"):
        interpreters.interpreter_for(other)


def test_a_machine_without_a_compiler_is_told_why(tmp_path: Path) -> None:
    command = [sys.executable, str(PACKAGING / "wheels.py"), "--out", str(tmp_path / "dist")]
    environment = {**os.environ, "PATH": str(tmp_path)}
    for options, status, prefix in (([], 1, "wheels.py: "), (["--optional"], 0, "SKIPPED: ")):
        done = subprocess.run(
            [*command, *options], env=environment, capture_output=True, text=True, timeout=60
        )
        assert done.returncode == status
        assert done.stderr.startswith(prefix + "make wheels needs g++ on x86-64")
    assert not (tmp_path / "dist").exists()
