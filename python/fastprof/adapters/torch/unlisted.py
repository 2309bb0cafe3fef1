# SPDX-License-Identifier: Apache-2.0
"""Determine the loaded torch's layout: from the table, from the table's newest release, or from the headers."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from fastprof import _core

__all__ = ["is_newer_than_listed", "numbers_of_headers", "proven_layout"]

# Declarations of libtorch that are used before any proof can run and that numbers do not cover: hashes of
# their text, without comments and white space, in the releases that the tables list.
_DECLARATIONS = {
    "class TORCH_API RecordFunctionCallback": "6af127da7c43",
    "enum class C10_API_ENUM RecordScope": "f820f7bce9ad",
    "struct ObserverContext": "04c56521f257",
}

Known = Callable[[str], Sequence[int] | None]
Proof = Callable[[Sequence[int]], str]


def proven_layout(torch: Any, version: str, section: str, known: Known, proof: Proof) -> str:
    """Prove a layout of this torch and return ""; else return why no layout holds.

    version: torch's version text. section: of layout.SECTIONS.
    known: the table's numbers for a version, None if it is not listed.
    proof: returns why numbers are wrong, "" if they hold; trying wrong numbers is safe.

    A version newer than all in the table is first tried with the numbers of the newest listed release,
    because successive releases mostly share a layout. If that fails, or the version is an older
    unlisted one, the headers are read, which needs a compiler.
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
        reason = reason and f"its layout differs from that of torch {newest} ({reason}); "
    found = numbers_of_headers(torch, version, section)
    return reason + found if isinstance(found, str) else proof(found)


def is_newer_than_listed(version: str) -> bool:
    """Return whether the version is of a later release than the newest in the tables."""
    release = re.match(r"(\d+)\.(\d+)\.", version)
    return release is not None and (int(release[1]), int(release[2])) > _core.torch_newest_release()


def numbers_of_headers(torch: Any, version: str, section: str) -> list[int] | str:
    """Return the numbers of a section of layout.SECTIONS, or why the headers could not be read."""
    # Imported only here, because headers.py imports the modules that run a compiler, which are slow to load.
    from fastprof.adapters.torch.headers import LayoutError, layout_from_headers

    try:
        return layout_from_headers(torch, section)
    except LayoutError as error:
        return f"this version of fastprof has no layout for torch {version}, and {error}"


def _wrong_about_declarations(torch: Any) -> str:
    place = getattr(torch, "__file__", None)
    if place is None:
        return "torch has no __file__, so its headers cannot be found"
    header = Path(place).resolve().parent / "include" / "ATen" / "record_function.h"
    try:
        text = header.read_text(errors="replace")
    except OSError:
        return "torch's headers are not installed"
    text = re.sub(r"//[^\n]*|/\*.*?\*/", "", text, flags=re.DOTALL)
    for declaration, digest in _DECLARATIONS.items():
        words = "".join(_declared(text, declaration).split())
        if hashlib.sha256(words.encode()).hexdigest()[:12] != digest:
            return f"{declaration.split()[-1]} is declared differently"
    return ""


def _declared(text: str, declaration: str) -> str:
    """Return the text of a declaration up to its closing brace; "" if it is missing or incomplete."""
    begin = text.find(f"{declaration} {{")
    if begin < 0:
        begin = text.find(f"{declaration} :")
    depth = 0
    for brace in re.finditer("[{}]", text[begin:]) if begin >= 0 else ():
        depth += 1 if brace.group() == "{" else -1
        if depth == 0:
            return text[begin : begin + brace.end()]
    return ""
