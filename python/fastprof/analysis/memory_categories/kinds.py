# SPDX-License-Identifier: Apache-2.0
"""Names and numbers of memory categories and actions, which are PyTorch's (torch.profiler, 2.13)."""

from __future__ import annotations

import enum

__all__ = ["CATEGORY_ORDER", "Action", "Category", "category_name"]


class Category(enum.Enum):
    """What a version of a storage is used for. Unknown uses are None instead of a Category."""

    INPUT = 1
    TEMPORARY = 2
    ACTIVATION = 3
    GRADIENT = 4
    AUTOGRAD_DETAIL = 5
    PARAMETER = 6
    OPTIMIZER_STATE = 7


class Action(enum.Enum):
    """Kind of change to a storage in the timeline."""

    PREEXISTING = 1
    CREATE = 2
    INCREMENT_VERSION = 3
    DESTROY = 4


# Order of the columns in exported files, as in PyTorch: the number of a category is its index here.
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
    """Return the name as users read it: "optimizer state", "unknown"."""
    return "unknown" if category is None else category.name.lower().replace("_", " ")
