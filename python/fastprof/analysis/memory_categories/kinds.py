# SPDX-License-Identifier: Apache-2.0
"""Names and numbers of memory categories and actions, which are PyTorch's (torch.profiler, 2.13)."""

from __future__ import annotations

import enum

__all__ = ["CATEGORY_ORDER", "Action", "Category", "category_name"]


class Category(enum.Enum):
    """The use of a version of a storage. None in place of a Category: unknown."""

    INPUT = 1
    TEMPORARY = 2
    ACTIVATION = 3
    GRADIENT = 4
    AUTOGRAD_DETAIL = 5
    PARAMETER = 6
    OPTIMIZER_STATE = 7


class Action(enum.Enum):
    """What happens to a storage at an entry of the timeline."""

    PREEXISTING = 1
    CREATE = 2
    INCREMENT_VERSION = 3
    DESTROY = 4


# Order of the columns in exported files, as in PyTorch's: a category's number there is its position.
CATEGORY_ORDER: tuple[Category | None, ...] = (
    Category.PARAMETER,
    Category.OPTIMIZER_STATE,
    Category.INPUT,
    Category.TEMPORARY,
    Category.ACTIVATION,
    Category.GRADIENT,
    Category.AUTOGRAD_DETAIL,
    None,
)


def category_name(category: Category | None) -> str:
    """Return the name in plain words: "optimizer state", "unknown"."""
    return "unknown" if category is None else category.name.lower().replace("_", " ")
