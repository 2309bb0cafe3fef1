# SPDX-License-Identifier: Apache-2.0
"""The layout of the loaded torch: from the table, from the newest release in it, or from the headers."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from fastprof import _core

__all__ = ["is_newer_than_listed", "numbers_of_headers", "proven_layout"]

# What libtorch takes and calls before any proof can run, and numbers do not say: the texts of these declarations,
# without comments and blanks, in the releases that the tables list.
_DECLARATIONS = {
    "class TORCH_API RecordFunctionCallback": "6af127da7c43",
    "enum class C10_API_ENUM RecordScope": "f820f7bce9ad",
    "struct ObserverContext": "04c56521f257",
}

Known = Callable[[str], Sequence[int] | None]
Proof = Callable[[Sequence[int]], str]


def proven_layout(torch: Any, version: str, section: str, known: Known, proof: Proof) -> str:
    """Empty when a layout of this torch has been proven, else why there is none.

    version: of torch, as it says. section: of layout.SECTIONS. known: the numbers in the table for a version,
    None where it lists none. proof: why numbers are wrong, empty when they hold; wrong ones do no
    harm. A version that is not in the table, but newer than all in it, is tried with the numbers of
    the newest first: releases that follow each other mostly have one layout. The headers are asked
    where that does not hold, which takes a compiler.
    """
    listed = known(version)
    if listed is not None:
        return proof(listed)
    reason = ""
    if is_newer_than_listed(version):
        newest = ".".join(map(str, _core.torch_newest_release()))
        numbers = known(f"{newest}.0")
        reason = "" if numbers is None else _wrong_about_declarations(torch) or proof(numbers)
        if numbers is not None and not reason:
            return ""
        reason = reason and f"it is not laid out as {newest} is ({reason}); "
    found = numbers_of_headers(torch, version, section)
    return reason + found if isinstance(found, str) else proof(found)


def is_newer_than_listed(version: str) -> bool:
    """Whether the version is of a later release than the newest in the tables."""
    release = re.match(r"(\d+)\.(\d+)\.", version)
    return release is not None and (int(release[1]), int(release[2])) > _core.torch_newest_release()


def numbers_of_headers(torch: Any, version: str, section: str) -> list[int] | str:
    """The numbers of a section of layout.SECTIONS, or why the headers could not be asked."""
    # Not imported by the others: it loads what runs a compiler.
    from fastprof.adapters.torch.headers import LayoutError, layout_from_headers

    try:
        return layout_from_headers(torch, section)
    except LayoutError as error:
        return f"this fastprof does not know torch {version}, and {error}"


def _wrong_about_declarations(torch: Any) -> str:
    place = getattr(torch, "__file__", None)
    if place is None:
        return "it does not say where its headers are"
    header = Path(place).resolve().parent / "include" / "ATen" / "record_function.h"
    try:
        text = header.read_text(errors="replace")
    except OSError:
        return "its headers are not installed"
    text = re.sub(r"//[^\n]*|/\*.*?\*/", "", text, flags=re.DOTALL)
    for declaration, digest in _DECLARATIONS.items():
        words = "".join(_declared(text, declaration).split())
        if hashlib.sha256(words.encode()).hexdigest()[:12] != digest:
            return f"{declaration.split()[-1]} is declared otherwise"
    return ""


def _declared(text: str, declaration: str) -> str:
    """The text of a declaration to its last brace; empty where it is not whole."""
    begin = text.find(f"{declaration} {{")
    if begin < 0:
        begin = text.find(f"{declaration} :")
    depth = 0
    for brace in re.finditer("[{}]", text[begin:]) if begin >= 0 else ():
        depth += 1 if brace.group() == "{" else -1
        if depth == 0:
            return text[begin : begin + brace.end()]
    return ""
