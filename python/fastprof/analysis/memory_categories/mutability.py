# SPDX-License-Identifier: Apache-2.0
"""Which inputs an op writes to: by the op's schema where one is known, else by PyTorch's naming rule."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

__all__ = ["WrittenInputs", "written_by_name"]

# (name, overload name) -> for each input whether the op writes to it, None if that is unknown.
# An empty result: no op of this name is known.
WrittenInputs: TypeAlias = Callable[[str, str], Sequence[bool | None]]


def written_by_name(name: str, overload: str) -> Sequence[bool | None]:
    """Return the written inputs by PyTorch's naming rule: in-place ops end in "_" and write to their first input.

    For recordings that are read without torch. Ops with an argument `out` write to it, but the name does not
    contain its position, so the result for such an overload is (): unknown.
    """
    if "out" in overload.split("_"):
        return ()
    plain = name.rpartition("::")[2]
    in_place = plain.endswith("_") and not plain.endswith("__")
    return (in_place, *[False] * 63)
