# SPDX-License-Identifier: Apache-2.0
"""RecordScope: the kind of code that a range encloses."""

from __future__ import annotations

import enum
from typing import Any

__all__ = ["ENGINE_RANGE_PREFIX", "RecordScope", "is_op_scope"]

# Prefix of the ranges that PyTorch's autograd engine puts around each backward function.
ENGINE_RANGE_PREFIX = "autograd::engine::evaluate_function: "


class RecordScope(enum.IntEnum):
    """Values of RecordScope in csrc/include/fastprof/base/scope.hpp, which are PyTorch's."""

    FUNCTION = 0
    BACKWARD_FUNCTION = 1
    TORCHSCRIPT_FUNCTION = 2
    KERNEL_FUNCTION_DTYPE = 3
    CUSTOM_CLASS = 4
    BUILD_FEATURE = 5
    LITE_INTERPRETER = 6
    USER_SCOPE = 7
    STATIC_RUNTIME_OP = 8
    STATIC_RUNTIME_MODEL = 9


def is_op_scope(scope: Any) -> Any:
    """Return whether a RecordScope, or each of an array, is of ops of PyTorch, which autograd may wrap."""
    return scope != int(RecordScope.USER_SCOPE)
