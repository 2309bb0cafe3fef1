# SPDX-License-Identifier: Apache-2.0
"""ProfilerActivity: the kinds of work a profile can look at, and which of them this machine offers."""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping
from typing import Any

from fastprof.base import errors
from fastprof.base.same_enum import SameEnum

__all__ = [
    "ProfilerActivity",
    "as_activity",
    "category_mask",
    "kineto_available",
    "missing_reason",
    "parse_activities",
    "supported_activities",
]


class ProfilerActivity(SameEnum, enum.Enum):
    """Kinds of activities. PyTorch's names and numbers; its own values are accepted everywhere too."""

    CPU = 0
    XPU = 1
    CUDA = 2
    HPU = 3
    MTIA = 4
    PrivateUse1 = 5


# Kineto's type names of the CPU group, as in its traces -> category bits of csrc/include/fastprof/base/scope.hpp.
_CPU_TYPES = {
    "user_annotation": 1 << 0 | 1 << 6,
    "cpu_op": 1 << 1,
    "cpu_instant_event": 1 << 2 | 1 << 4,
    "python_function": 1 << 7,
    "overhead": 0,
    "cuda_runtime": 1 << 8,
    "cuda_driver": 1 << 8,
}
_ALL_CATEGORIES = (1 << 24) - 1


def supported_activities() -> set[ProfilerActivity]:
    """The activities that this build records on this machine."""
    return {ProfilerActivity.CPU}


def kineto_available() -> bool:
    """True: what PyTorch needs Kineto for is part of fastprof."""
    return True


def missing_reason(activity: ProfilerActivity) -> str | None:
    """Why an activity is not recorded here, None when it is."""
    if activity in supported_activities():
        return None
    return f"this build of fastprof has no {activity.name} backend: work on that device is not recorded"


def as_activity(value: Any) -> ProfilerActivity:
    """ProfilerActivity from ours, PyTorch's or a name; errors.ValueError for what is none."""
    if isinstance(value, ProfilerActivity):
        return value
    name = value if isinstance(value, str) else getattr(value, "name", None)
    for activity in ProfilerActivity:
        if isinstance(name, str) and name.lower() == activity.name.lower():
            return activity
    known = ", ".join(a.name for a in ProfilerActivity)
    raise errors.ValueError(f"{value!r} is no ProfilerActivity; choose from {known}")


def parse_activities(items: Iterable[Any]) -> dict[ProfilerActivity, tuple[str, ...] | None]:
    """Activities asked for, each with its type names (None: all types).

    An item is an activity or a mapping {activity: [type names]}; an empty list means nothing of
    that group. An activity that comes twice raises errors.ValueError, as in PyTorch.
    """
    asked: dict[ProfilerActivity, tuple[str, ...] | None] = {}
    for item in items:
        pairs = item.items() if isinstance(item, Mapping) else [(item, None)]
        for key, names in pairs:
            activity = as_activity(key)
            if activity in asked:
                raise errors.ValueError(
                    f"the activity {activity.name} is given twice: give each once, with all its"
                    " types in one list"
                )
            types = getattr(names, "activity_types", names)
            asked[activity] = None if types is None else tuple(str(name) for name in types)
    return asked


def category_mask(types: tuple[str, ...] | None) -> int:
    """Category bits of the recorder for type names of the CPU group (None: all).

    Names in upper case, as PyTorch spells them ("CPU_OP"), or in lower case, as traces do ("cpu_op").
    Counters and flows go along with any type. An unknown name raises errors.UnavailableError.
    """
    if types is None:
        return _ALL_CATEGORIES
    mask = 0
    for name in types:
        bits = _CPU_TYPES.get(name.lower())
        if bits is None:
            known = ", ".join(_CPU_TYPES).upper()
            raise errors.UnavailableError(
                f"{name!r} is no activity type of CPU; choose from {known}"
            )
        mask |= bits
    return mask | (1 << 3 | 1 << 5 if mask else 0)
