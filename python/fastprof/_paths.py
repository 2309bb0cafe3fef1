# SPDX-License-Identifier: Apache-2.0
"""Paths of this installation's C++ headers, CMake and pkg-config packages and injection library."""

from __future__ import annotations

import sys
from pathlib import Path

_HEADER = Path("fastprof", "base", "config.hpp")


def include_dir() -> Path:
    """Return the folder to pass to a C++ compiler with ``-I``.

    Inside the package after a normal install; in the source tree after an editable one, so that edited headers are
    the ones compiled. Raises FileNotFoundError if neither exists.
    """
    package = Path(__file__).resolve().parent
    candidates = [package / "include", package.parents[1] / "csrc" / "include"]
    for candidate in candidates:
        if (candidate / _HEADER).is_file():
            return candidate
    raise FileNotFoundError(
        f"cannot find the fastprof headers in any of {[str(c) for c in candidates]}. Reinstall fastprof."
    )


def cmake_dir() -> Path:
    """Return the value of ``fastprof_DIR`` for ``find_package(fastprof)`` in CMake.

    Raises FileNotFoundError if this installation has no CMake package.
    """
    package = Path(__file__).resolve().parent
    candidates = [package / "share" / "cmake" / "fastprof", package.parents[1] / "cmake"]
    for candidate in candidates:
        if (candidate / "fastprofConfig.cmake").is_file():
            return candidate
    raise FileNotFoundError(
        f"cannot find fastprofConfig.cmake in any of {[str(c) for c in candidates]}. Reinstall fastprof."
    )


def pkg_config_dir() -> Path:
    """Return the folder to add to ``PKG_CONFIG_PATH`` for ``pkg-config fastprof``.

    Raises FileNotFoundError if this installation has no description for pkg-config.
    """
    package = Path(__file__).resolve().parent
    candidates = [package / "share" / "pkgconfig", package.parents[1] / "cmake"]
    for candidate in candidates:
        if (candidate / "fastprof.pc").is_file():
            return candidate
    raise FileNotFoundError(
        f"cannot find fastprof.pc in any of {[str(c) for c in candidates]}. Reinstall fastprof."
    )


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
