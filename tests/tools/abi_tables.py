# SPDX-License-Identifier: Apache-2.0
"""Compares fastprof's declarations of vendors' interfaces with the genuine headers, by the tables in tests/abi.

A table is a list of C++ lines (those that begin with "#", and those behind "| ") and of comparisons:

    size OWN GENUINE                   sizeof is equal
    field RULE OWN GENUINE: NAME ...   offset and size of each member are equal
    value RULE OWN GENUINE: NAME ...   OWN + NAME is the number GENUINE + NAME

RULE makes the genuine name of ours: camel (start_ns: startNs), upper (START_NS) or same; NAME=OTHER states it.
A line that begins with a blank continues the one before. OWN is looked up in the namespace `own`.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
_RULES = {
    "camel": lambda name: re.sub(r"_(\w)", lambda found: found[1].upper(), name),
    "upper": str.upper,
    "same": str,
}


def _assertions(line: str) -> list[str]:
    if line.startswith("#") or not line:
        return [line]
    if line.startswith("| "):
        return [line[2:]]
    if line.startswith("size "):
        _, own, genuine = line.split()
        return [f'static_assert(sizeof(own::{own}) == sizeof({genuine}), "{genuine}");']
    head, _, names = line.rpartition(": ")
    verb, rule, own, genuine = head.split()
    own = own.strip('"')  # "": no prefix
    lines = []
    for item in names.split():
        ours, _, theirs = item.partition("=")
        theirs = theirs or _RULES[rule](ours)
        if verb == "field":
            test = (
                f"offsetof(own::{own}, {ours}) == offsetof({genuine}, {theirs}) && "
                f"sizeof(own::{own}::{ours}) == sizeof(std::declval<{genuine}>().{theirs})"
            )
        elif verb == "value":
            # In our type: a genuine -1 is our 0xFFFFFFFF.
            test = f"own::{own}{ours} == static_cast<std::decay_t<decltype(own::{own}{ours})>>({genuine}{theirs})"
        else:
            raise ValueError(f"no such comparison: {line}")
        what = f"{own}{ours}" if verb == "value" else f"{own}::{ours}"
        lines.append(f'static_assert({test}, "{what}");')
    return lines


def source(table: str) -> str:
    """Return the C++ of a table, in tests/abi."""
    text = (ROOT / "tests" / "abi" / table).read_text()
    joined = re.sub(r"\n +", " ", text)
    lines = [part for line in joined.splitlines() for part in _assertions(line)]
    return "\n".join(
        ["#include <cstddef>", "#include <type_traits>", "#include <utility>", *lines, ""]
    )


def compare(table: str, flags: Sequence[str]) -> None:
    """Compile the comparisons of a table with the given -I flags. Raises CalledProcessError if they fail."""
    subprocess.run(
        ["g++", "-std=c++17", "-fsyntax-only", "-Icsrc", "-Icsrc/include", *flags, "-x", "c++", "-"],
        input=source(table), text=True, cwd=ROOT, check=True, timeout=300,
    )  # fmt: skip
