# SPDX-License-Identifier: Apache-2.0
"""SameEnum: mixin whose members equal PyTorch's members of the enum of the same name."""

from __future__ import annotations

from typing import Any

__all__ = ["SameEnum"]


class SameEnum:
    """Mixin for enums whose members equal the members of torch's enum of the same class and member name.

    Applies to comparisons with our member on the left, and to look-ups in sets of our members. With torch's
    C++ enum on the left, torch's comparison applies, which accepts only its own members.
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
        return hash(getattr(self, "value", None))  # equal to the hash of torch's C++ enums
