# SPDX-License-Identifier: Apache-2.0
"""ProfilerActivity: the kinds of work a profile can record, and the names of their types."""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping
from types import NoneType
from typing import Any, TypeVar

from fastprof.base import errors
from fastprof.base.native_numbers import Category
from fastprof.base.same_enum import SameEnum

__all__ = [
    "ProfilerActivity",
    "as_activity",
    "category_mask",
    "cuda_types",
    "kineto_available",
    "parse_activities",
    "plugin_types",
]


class ProfilerActivity(SameEnum, enum.Enum):
    """Kinds of activities. PyTorch's names and values; its own enumerators are accepted everywhere.

    MPS exists in fastprof only: Metal work, which PyTorch's profiler does not record.
    """

    CPU = 0
    XPU = 1
    CUDA = 2
    HPU = 3
    MTIA = 4
    PrivateUse1 = 5
    MPS = 6


_Type = TypeVar("_Type", int, str)

# Kineto's type names of the CPU group, as in its traces -> Category bits.
_CPU_TYPES: dict[str, int] = {
    "user_annotation": Category.USER | Category.ASYNC,
    "cpu_op": Category.OP,
    "cpu_instant_event": Category.MEMORY | Category.MARK,
    "python_function": Category.PYTHON_CALL,
    "overhead": 0,
    "cuda_runtime": Category.RUNTIME,
    "cuda_driver": Category.RUNTIME,
    "privateuse1_runtime": Category.RUNTIME,
    "privateuse1_driver": Category.RUNTIME,
}


# Kineto's type names of the CUDA group -> those of traces.
_CUDA_TYPES: dict[str, str] = {
    "kernel": "kernel",
    "concurrent_kernel": "kernel",
    "gpu_memcpy": "gpu_memcpy",
    "gpu_memset": "gpu_memset",
    "cuda_runtime": "cuda_runtime",
    "cuda_driver": "cuda_driver",
    "cuda_sync": "cuda_sync",
    "cuda_event": "cuda_sync",
    "overhead": "overhead",
    "gpu_user_annotation": "gpu_user_annotation",
    "gpu_memory": "gpu_memory",
    "unified_memory": "unified_memory",
    "cuda_graph": "cuda_graph",  # not of Kineto: launches of graphs in the place of their nodes
}
# Types that are recorded only when an option or a type name requests them.
_ON_REQUEST = frozenset({"cuda_sync", "gpu_memory", "unified_memory", "cuda_graph"})


def kineto_available() -> bool:
    """Return True: fastprof itself provides what PyTorch needs Kineto for. Any thread."""
    return True


def as_activity(value: Any) -> ProfilerActivity:
    """Convert ours, PyTorch's or a name to a ProfilerActivity; errors.ValueError for anything else."""
    if isinstance(value, ProfilerActivity):
        return value
    name = value if isinstance(value, str) else getattr(value, "name", None)
    for activity in ProfilerActivity:
        if isinstance(name, str) and name.lower() == activity.name.lower():
            return activity
    known = ", ".join(a.name for a in ProfilerActivity)
    raise errors.ValueError(f"unknown ProfilerActivity {value!r}. Use one of {known}.")


def parse_activities(items: Iterable[Any]) -> dict[ProfilerActivity, tuple[str, ...] | None]:
    """Return the requested activities, each with its type names (None: all types).

    items: activities, or mappings {activity: [type names]}, or one such mapping; an empty list selects no type of
    that activity. Raises errors.ValueError for an activity given twice, as PyTorch does, and for what is no list.
    """
    if isinstance(items, Mapping):
        items = [items]
    if isinstance(items, str) or not isinstance(items, Iterable):
        raise errors.ValueError(
            f"activities must be a list, not {items!r}. Use [ProfilerActivity.CPU]."
        )
    asked: dict[ProfilerActivity, tuple[str, ...] | None] = {}
    for item in items:
        pairs = item.items() if isinstance(item, Mapping) else [(item, None)]
        for key, names in pairs:
            activity = as_activity(key)
            if activity in asked:
                raise errors.ValueError(
                    f"the activity {activity.name} is listed twice. List it once, with all its types."
                )
            types = getattr(names, "activity_types", names)
            if isinstance(types, str) or not isinstance(types, (Iterable, NoneType)):
                raise errors.ValueError(
                    f"the types of {activity.name} must be a list of names, not {types!r}. Put them into one."
                )
            asked[activity] = None if types is None else tuple(str(name) for name in types)
    return asked


def cuda_types(
    types: tuple[str, ...] | None, sync: bool = False, memory: bool = False
) -> tuple[str, ...]:
    """Return the activity types, as in traces, of type names of the CUDA group (None: all).

    sync: include waits of streams and events. memory: include allocations by CUDA's functions, pools and
    moves of managed memory. Neither is part of "all". Raises errors.UnavailableError for an unknown name.
    """
    chosen = (
        set(_CUDA_TYPES.values()) - _ON_REQUEST
        if types is None
        else {_known(name, _CUDA_TYPES, "CUDA") for name in types}
    )
    if sync:
        chosen.add("cuda_sync")
    if memory:
        chosen |= {"gpu_memory", "unified_memory"}
    return tuple(sorted(chosen))


def plugin_types(activity: ProfilerActivity, types: tuple[str, ...] | None) -> tuple[str, ...]:
    """Return the activity types, as in traces, of type names of a plug-in's activity (None: all).

    Raises errors.UnavailableError for an unknown name.
    """
    prefix = activity.name.lower()
    known = {
        name: name
        for name in (
            "kernel", "gpu_memcpy", "gpu_memset", f"{prefix}_runtime", f"{prefix}_driver",
            f"{prefix}_sync", "overhead",
        )
    }  # fmt: skip
    known["concurrent_kernel"] = "kernel"
    chosen = known if types is None else types
    return tuple(sorted({_known(name, known, activity.name) for name in chosen}))


def category_mask(types: tuple[str, ...] | None) -> int:
    """Return the recorder's Category bits for type names of the CPU group (None: all).

    Case is ignored: PyTorch writes "CPU_OP", traces "cpu_op". Counters, flows and tasks are included
    with any type. Raises errors.UnavailableError for an unknown name.
    """
    if types is None:
        return int(Category.ALL)
    mask = 0
    for name in types:
        mask |= _known(name, _CPU_TYPES, "CPU")
    return mask | (Category.COUNTER | Category.FLOW | Category.TASK if mask else 0)


def _known(name: str, types: Mapping[str, _Type], group: str) -> _Type:
    """Return the value of a type name of a group; errors.UnavailableError if the name is unknown."""
    found = types.get(name.lower())
    if found is None:
        known = ", ".join(types).upper()
        raise errors.UnavailableError(
            f"unknown activity type {name!r} of {group}. Use one of {known}."
        )
    return found
