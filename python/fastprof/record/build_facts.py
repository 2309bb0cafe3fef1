# SPDX-License-Identifier: Apache-2.0
"""Build facts of the native module: compiler, ABI, and loaded libraries of an incompatible ABI."""

from __future__ import annotations

from typing import NamedTuple

from fastprof import _core

__all__ = ["BuildFacts", "build_facts"]


class BuildFacts(NamedTuple):
    """compiler: name and version. abi: (major, minor). other_abi: library paths, "" for the executable."""

    compiler: str
    abi: tuple[int, int]
    other_abi: tuple[str, ...]


def build_facts() -> BuildFacts:
    """Return the current facts; a library loaded later may change them. Any thread."""
    major, minor = _core.abi_version()
    return BuildFacts(_core.compiler, (major, minor), tuple(_core.libraries_of_other_abi()))
