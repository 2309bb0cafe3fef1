# SPDX-License-Identifier: Apache-2.0
"""Environments with one version of torch each, for a machine without a GPU and with little disk space.

The package index has builds of torch for CUDA, with 3 GB of libraries that only a GPU needs. `import torch` loads them
all, but work on the CPU calls only the CUDA runtime and CUPTI, by which Kineto looks for devices. These two are
installed; each other library is replaced by an empty one with its name.
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

# Parts of the names of torch's requirements for CUDA that are installed.
_CALLED = ("cudart", "cupti", "cuda-runtime", "cuda-cupti")
_GPU_ONLY = ("nvidia-", "cuda-", "triton", "pytorch-triton")
_SEEN_BY_ALL = "fastprof_tests.pth"


def python_of(folder: Path) -> Path:
    """Return the path of an environment's interpreter."""
    return folder / "bin" / "python"


def make_environment(folder: Path, version: str, *, whole: bool = False) -> Path:
    """Install torch `version` into a new environment; return its interpreter.

    The tests' other packages come from the environment that runs this function. whole: install all requirements of
    torch (about 4 GB) instead of empty libraries. Linux. Raises subprocess.CalledProcessError if the index does
    not have the version or the installation fails.
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
    if done.returncode != 0:  # other messages of pip concern the omitted libraries
        print(done.stderr, file=sys.stderr)
        done.check_returncode()


def _wanted(requirements: list[str]) -> Iterator[str]:
    """Yield the requirements that a CPU-only run needs and this environment lacks."""
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
    """Create an empty library for each missing library that one of torch's libraries needs.

    It defines the functions that torch needs and no library has; a call of one crashes the program.
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
    """Create the library. symbols: "name" or "name@version", where only versions in `versions` are used."""
    names = sorted({_plain(s) for s in symbols if "@" not in s or s.split("@")[1] in versions})
    source = ".text\n" + "".join(f".globl {name}\n{name}:\n" for name in names)
    source += '.byte 0\n.section .note.GNU-stack,"",@progbits\n'
    with tempfile.NamedTemporaryFile("w", suffix=".map") as script:
        for version in versions:
            members = "".join(f"{_plain(s)};" for s in symbols if s.endswith(f"@{version}"))
            script.write(f"{version} {{ {'global: ' if members else ''}{members} }};\n")
        script.flush()
        command = ["cc", "-shared", "-nostdlib", "-x", "assembler", "-", f"-Wl,-soname,{library.name}"]  # fmt: skip
        command += [f"-Wl,--version-script={script.name}"] if versions else []
        subprocess.run([*command, "-o", str(library)], input=source, check=True, text=True)


def _plain(symbol: str) -> str:
    return symbol.split("@")[0]


def _needed(library: Path) -> list[str]:
    return re.findall(r"\(NEEDED\).*\[(.*)\]", _said("readelf", "-dW", library))


def _versions(library: Path) -> dict[str, list[str]]:
    """Return name of each needed library -> versions of the symbols that are needed from it."""
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
