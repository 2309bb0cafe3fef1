# SPDX-License-Identifier: Apache-2.0
"""SameEnum: members that equal PyTorch's members of the enum of that name."""

from __future__ import annotations

from typing import Any

__all__ = ["SameEnum"]


class SameEnum:
    """Mixin for enums: a script may compare ours with torch's, whichever it imported.

    With ours on the left, and in sets of ours; torch's C++ enums on the left know only themselves.
    """

    def __eq__(self, other: object) -> Any:
        kind = type(other)
        if kind.__name__ == type(self).__name__ and kind.__module__.split(".")[0] == "torch":
            return getattr(other, "name", None) == getattr(self, "name", "")
        return super().__eq__(other)

    def __ne__(self, other: object) -> Any:
        equal = self.__eq__(other)
        return equal if equal is NotImplemented else not equal

    def __hash__(self) -> int:
        return hash(getattr(self, "value", None))  # as torch's C++ enums
