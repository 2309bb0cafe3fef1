# SPDX-License-Identifier: Apache-2.0
"""Environments with one version of torch each, for a machine without a GPU and with little room.

The package index has torch as builds for CUDA, with 3 GB of libraries that only a GPU needs. `import torch` wants
them to be there, and work on the CPU calls none of them but the CUDA runtime and CUPTI, which Kineto asks whether there
is a device. Those two are installed; each other library is replaced by an empty one of its name.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import venv
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, distribution, distributions
from pathlib import Path

__all__ = ["make_environment", "python_of"]

# What is named in the requirements of torch, and is installed for it.
_CALLED = ("cudart", "cupti", "cuda-runtime", "cuda-cupti")
_GPU_ONLY = ("nvidia-", "cuda-", "triton", "pytorch-triton")
_SEEN_BY_ALL = "fastprof_tests.pth"


def python_of(folder: Path) -> Path:
    """The interpreter of an environment."""
    return folder / "bin" / "python"


def make_environment(folder: Path, version: str, *, whole: bool = False) -> Path:
    """Install torch `version` into a new environment; the interpreter.

    Everything else that the tests import comes from the environment that this runs in. whole: with all that torch
    requires (about 4 GB) and no empty library. Linux. Raises subprocess.CalledProcessError when the
    index does not have it or the machine does not take it.
    """
    shutil.rmtree(folder, ignore_errors=True)
    venv.create(folder)
    python = python_of(folder)
    packages = Path(sysconfig.get_path("purelib", vars={"base": str(folder)}))
    ours = dict.fromkeys((sysconfig.get_path("purelib"), sysconfig.get_path("platlib")))
    (packages / _SEEN_BY_ALL).write_text("\n".join(ours) + "\n")
    if whole:
        _install(python, [f"torch=={version}"])
        return python
    _install(python, ["--no-deps", f"torch=={version}"])
    (torch,) = (d for d in distributions(path=[str(packages)]) if d.metadata["Name"] == "torch")
    wanted = list(_wanted(torch.requires or []))
    if wanted:
        _install(python, wanted)
    _replace_missing_libraries(packages)
    return python


def _install(python: Path, requirements: list[str]) -> None:
    command = [sys.executable, "-m", "pip", "--python", str(python), "install", "-q"]
    command += ["--no-cache-dir", "--no-compile", "--ignore-installed", *requirements]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:  # what pip says else is about the libraries that are left out
        print(done.stderr, file=sys.stderr)
        done.check_returncode()


def _wanted(requirements: list[str]) -> Iterator[str]:
    """Of what torch requires: what is called without a GPU, and what is not installed where this runs."""
    for requirement in requirements:
        found = re.match(r"([\w.-]+)(?:\[([\w.,-]+)\])?\s*([^;]*)", requirement)
        if found is None or "extra ==" in requirement:
            continue
        name, extras, versions = found.groups()
        if name == "cuda-toolkit":  # one package that names the others by extras
            called = [extra for extra in (extras or "").split(",") if extra in _CALLED]
            yield f"{name}[{','.join(called)}]{versions.strip()}"
        elif name.startswith(_GPU_ONLY):
            if any(called in name for called in _CALLED):
                yield f"{name}{versions.strip()}"
        else:
            try:
                distribution(name)
            except PackageNotFoundError:
                yield f"{name}{versions.strip()}"


def _replace_missing_libraries(packages: Path) -> None:
    """Put an empty library wherever one of torch's names another that no folder has.

    Its functions are those that torch names and nobody has; each ends the program.
    """
    folder = packages / "torch" / "lib"
    libraries = sorted(folder.glob("*.so*"))
    there = {file.name: file for file in packages.glob("**/*.so*")}
    needed = {name for library in libraries for name in _needed(library)}
    missing = sorted(
        n for n in needed - there.keys() if n.startswith(("libcu", "libnccl", "libnv"))
    )
    present = [*libraries, *(there[name] for name in needed & there.keys())]
    wanted = {name for library in libraries for name in _symbols(library, "--undefined-only")}
    defined = {_plain(n) for library in present for n in _symbols(library, "--defined-only")}
    absent = sorted(
        n for n in wanted if n.startswith(("cu", "nccl", "nv")) and _plain(n) not in defined
    )
    versions = [_versions(library) for library in libraries]
    for name in missing:
        _make_empty_library(
            folder / name, absent, sorted({v for of in versions for v in of.get(name, ())})
        )


def _make_empty_library(library: Path, symbols: list[str], versions: list[str]) -> None:
    """symbols: "name" or "name@version"; those of other versions than `versions` are left out."""
    names = sorted({_plain(s) for s in symbols if "@" not in s or s.split("@")[1] in versions})
    source = ".text\n" + "".join(f".globl {name}\n{name}:\n" for name in names)
    source += '.byte 0\n.section .note.GNU-stack,"",@progbits\n'
    with tempfile.NamedTemporaryFile("w", suffix=".map") as script:
        for version in versions:
            members = "".join(f"{_plain(s)};" for s in symbols if s.endswith(f"@{version}"))
            script.write(f"{version} {{ {'global: ' if members else ''}{members} }};\n")
        script.flush()
        command = [
            "cc",
            "-shared",
            "-nostdlib",
            "-x",
            "assembler",
            "-",
            f"-Wl,-soname,{library.name}",
        ]
        command += [f"-Wl,--version-script={script.name}"] if versions else []
        subprocess.run([*command, "-o", str(library)], input=source, check=True, text=True)


def _plain(symbol: str) -> str:
    return symbol.split("@")[0]


def _needed(library: Path) -> list[str]:
    return re.findall(r"\(NEEDED\).*\[(.*)\]", _said("readelf", "-dW", library))


def _versions(library: Path) -> dict[str, list[str]]:
    """By the name of each library that it needs, the versions of symbols that it wants there."""
    versions: dict[str, list[str]] = {}
    name = ""
    for line in _said("readelf", "-VW", library).partition("needs section")[2].splitlines():
        if file := re.search(r"File: (\S+)", line):
            name = file[1]
        elif version := re.search(r"Name: (\S+)", line):
            versions.setdefault(name, []).append(version[1])
    return versions


def _symbols(library: Path, which: str) -> Iterator[str]:
    for line in _said("nm", "-D", "--format=posix", which, library).splitlines():
        yield line.split()[0].replace("@@", "@")


def _said(*command: str | Path) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


if __name__ == "__main__":
    print(make_environment(Path(sys.argv[1]), sys.argv[2]))
