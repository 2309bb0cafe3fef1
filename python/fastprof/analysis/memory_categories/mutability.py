# SPDX-License-Identifier: Apache-2.0
"""Find the inputs that an op writes to, by its schema or, if that is unknown, by PyTorch's naming rule."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

__all__ = ["WrittenInputs", "written_by_name"]

# (name, overload name) -> for each input, whether the op writes to it; None: unknown.
# The result is empty if the op is unknown.
WrittenInputs: TypeAlias = Callable[[str, str], Sequence[bool | None]]


def written_by_name(name: str, overload: str) -> Sequence[bool | None]:
    """Return the written inputs by PyTorch's naming rule: in-place ops end in "_" and write to their first input.

    Used if torch is not installed. An op with an argument `out` writes to it, but the position of `out` does not
    follow from the name: for such overloads, the result is (), which means unknown.
    """
    if "out" in overload.split("_"):
        return ()
    plain = name.rpartition("::")[2]
    in_place = plain.endswith("_") and not plain.endswith("__")
    return (in_place, *[False] * 63)
