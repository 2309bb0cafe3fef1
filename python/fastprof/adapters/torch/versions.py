# SPDX-License-Identifier: Apache-2.0
"""What a torch says of itself."""

from __future__ import annotations

from typing import Any

__all__ = ["cxx11_abi", "version_of"]


def version_of(torch: Any) -> str:
    """As it says of itself, with its build: "2.13.0+cpu"."""
    return str(getattr(torch, "__version__", "of unknown version"))


def cxx11_abi(torch: Any) -> bool:
    """Whether it is built with libstdc++'s C++11 strings; builds that do not say are."""
    return bool(getattr(getattr(torch, "_C", None), "_GLIBCXX_USE_CXX11_ABI", True))
