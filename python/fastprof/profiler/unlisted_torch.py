# SPDX-License-Identifier: Apache-2.0
"""The layout of a torch whose version no table lists: its headers are asked."""

from __future__ import annotations

from typing import Any

__all__ = ["numbers_of_headers"]


def numbers_of_headers(torch: Any, version: str, section: str) -> list[int] | str:
    """The numbers of a section of torch_layout.SECTIONS, or why the headers could not be asked."""
    # Not imported by the others: it loads what runs a compiler.
    from fastprof.profiler.torch_headers import LayoutError, layout_from_headers

    try:
        return layout_from_headers(torch, section)
    except LayoutError as error:
        return f"this fastprof does not know torch {version}, and {error}"
