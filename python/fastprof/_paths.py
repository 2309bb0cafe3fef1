# SPDX-License-Identifier: Apache-2.0
"""Paths of this installation's C++ headers, CMake and pkg-config packages and injection library."""

from __future__ import annotations

import sys
from pathlib import Path


def _folder_with(file: str, what: str, in_package: str, in_source: str) -> Path:
    """Return the folder that contains a file: in the package, or in the source tree of an editable install.

    Raises FileNotFoundError, which names `what`, if neither does.
    """
    package = Path(__file__).resolve().parent
    folders = [package / in_package, package.parents[1] / in_source]
    for folder in folders:
        if (folder / file).is_file():
            return folder
    raise FileNotFoundError(
        f"cannot find {what} in any of {[str(f) for f in folders]}. Reinstall fastprof."
    )


def include_dir() -> Path:
    """Return the folder to pass to a C++ compiler with ``-I``.

    Inside the package after a normal install; in the source tree after an editable one, so that edited headers are
    the ones compiled. Raises FileNotFoundError if neither exists.
    """
    header = "fastprof/base/config.hpp"
    return _folder_with(header, "the fastprof headers", "include", "csrc/include")


def cmake_dir() -> Path:
    """Return the value of ``fastprof_DIR`` for ``find_package(fastprof)`` in CMake.

    Raises FileNotFoundError if this installation has no CMake package.
    """
    file = "fastprofConfig.cmake"
    return _folder_with(file, file, "share/cmake/fastprof", "cmake")


def pkg_config_dir() -> Path:
    """Return the folder to add to ``PKG_CONFIG_PATH`` for ``pkg-config fastprof``.

    Raises FileNotFoundError if this installation has no description for pkg-config.
    """
    file = "fastprof.pc"
    return _folder_with(file, file, "share/pkgconfig", "cmake")


def definitions_source() -> Path:
    """Return the C++ source that defines Session for files compiled with ``FASTPROF_SEPARATE``.

    Raises FileNotFoundError as `include_dir` does.
    """
    return include_dir() / "fastprof" / "definitions.cpp"


def compile_flags() -> str:
    """Return the compiler's flags for files of a program that compiles `definitions_source` once."""
    return f"-I{include_dir()} -DFASTPROF_SEPARATE"


def injection_library() -> Path:
    """Return the path of the library that receives a program's NVTX and ITT ranges.

    Raises FileNotFoundError if this installation has none.
    """
    package = sys.modules[__package__ or "fastprof"].__path__
    for folder in package:
        candidate = Path(folder).resolve() / "libfastprof_injection.so"
        if candidate.is_file():
            return candidate
    raise FileNotFoundError(
        f"cannot find libfastprof_injection.so in any of {[str(p) for p in package]}. Reinstall fastprof."
    )
