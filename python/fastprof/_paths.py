# SPDX-License-Identifier: Apache-2.0
"""Paths of this installation's C++ headers, CMake package and injection library."""

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
