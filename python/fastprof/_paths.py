# SPDX-License-Identifier: Apache-2.0
"""Where the C++ headers and the CMake description of this installation are."""

from __future__ import annotations

from pathlib import Path

_HEADER = Path("fastprof", "base", "config.hpp")


def include_dir() -> Path:
    """The folder to hand to a C++ compiler with ``-I``.

    Inside the package after a normal install; in the source tree after an editable one, so that edited headers are
    the ones compiled. Raises FileNotFoundError when neither is there.
    """
    package = Path(__file__).resolve().parent
    candidates = [package / "include", package.parents[1] / "csrc" / "include"]
    for candidate in candidates:
        if (candidate / _HEADER).is_file():
            return candidate
    raise FileNotFoundError(
        f"the fastprof headers are in none of {[str(c) for c in candidates]}: install fastprof again"
    )


def cmake_dir() -> Path:
    """The folder to set ``fastprof_DIR`` to, for ``find_package(fastprof)`` in CMake.

    Raises FileNotFoundError when this installation has none.
    """
    package = Path(__file__).resolve().parent
    candidates = [package / "share" / "cmake" / "fastprof", package.parents[1] / "cmake"]
    for candidate in candidates:
        if (candidate / "fastprofConfig.cmake").is_file():
            return candidate
    raise FileNotFoundError(
        f"fastprofConfig.cmake is in none of {[str(c) for c in candidates]}: install fastprof again"
    )
