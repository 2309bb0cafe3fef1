# SPDX-License-Identifier: Apache-2.0
"""What a torch says of itself, and what its headers say where no table lists its version."""

from __future__ import annotations

from typing import Any

__all__ = ["cxx11_abi", "numbers_of_headers", "version_of"]


def version_of(torch: Any) -> str:
    """As it says of itself, with its build: "2.13.0+cpu"."""
    return str(getattr(torch, "__version__", "of unknown version"))


def cxx11_abi(torch: Any) -> bool:
    """Whether it is built with libstdc++'s C++11 strings; builds that do not say are."""
    return bool(getattr(getattr(torch, "_C", None), "_GLIBCXX_USE_CXX11_ABI", True))


def numbers_of_headers(torch: Any, version: str, section: str) -> list[int] | str:
    """The numbers of a section of torch_layout.SECTIONS, or why the headers could not be asked."""
    # Not imported by the others: it loads what runs a compiler.
    from fastprof.profiler.torch_headers import LayoutError, layout_from_headers

    try:
        return layout_from_headers(torch, section)
    except LayoutError as error:
        return f"this fastprof does not know torch {version}, and {error}"
