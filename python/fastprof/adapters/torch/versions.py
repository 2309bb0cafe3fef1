# SPDX-License-Identifier: Apache-2.0
"""Version and string ABI of a loaded torch, and the folder where facts about a build are kept."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

__all__ = ["cache_folder", "cxx11_abi", "version_of"]


def version_of(torch: Any) -> str:
    """Return torch's version with its build, such as "2.13.0+cpu"."""
    return str(getattr(torch, "__version__", "of unknown version"))


def cxx11_abi(torch: Any) -> bool:
    """Return whether torch is built with libstdc++'s C++11 strings; True for builds that do not say.

    True on macOS, whose libc++ has one string ABI; torch says False there.
    """
    return sys.platform == "darwin" or bool(
        getattr(getattr(torch, "_C", None), "_GLIBCXX_USE_CXX11_ABI", True)
    )


def cache_folder() -> Path:
    """Return the folder for facts about builds of torch: fastprof in XDG_CACHE_HOME or ~/.cache. It may not exist.

    For a user without a home folder, as in some containers, it can be neither read nor made.
    """
    base = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    if base.startswith("~"):  # no HOME, and a user id without an entry
        base = os.devnull
    return Path(base) / "fastprof"
