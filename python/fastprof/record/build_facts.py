# SPDX-License-Identifier: Apache-2.0
"""What the native part says of itself: compiler, ABI, and libraries it does not get along with."""

from __future__ import annotations

from typing import NamedTuple

from fastprof import _core

__all__ = ["BuildFacts", "build_facts"]


class BuildFacts(NamedTuple):
    """compiler: its name and version. abi: (major, minor). other_abi: paths, "" the executable."""

    compiler: str
    abi: tuple[int, int]
    other_abi: tuple[str, ...]


def build_facts() -> BuildFacts:
    """The facts now: libraries may be loaded later. Any thread."""
    major, minor = _core.abi_version()
    return BuildFacts(_core.compiler, (major, minor), tuple(_core.libraries_of_other_abi()))
