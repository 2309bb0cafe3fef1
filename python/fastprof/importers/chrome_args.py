# SPDX-License-Identifier: Apache-2.0
"""Decode the args of Chrome trace events into table columns, kind, flags and scope of a row."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

from fastprof.base.device_type import DeviceType
from fastprof.base.record_scope import ENGINE_RANGE_PREFIX, RecordScope
from fastprof.importers.table_builder import FINISHED, TableBuilder
from fastprof.model.table import EventFlag, EventKind

__all__ = [
    "DEVICE_CATEGORIES",
    "LISTS",
    "NUMBERS",
    "STATES",
    "TEXTS",
    "USER_SCOPE",
    "ScopeRule",
    "as_int",
    "keeps_number",
    "launches_kernels",
    "put_args",
    "range_state",
]

USER_SCOPE = int(RecordScope.USER_SCOPE)
_FUNCTION, _BACKWARD_FUNCTION = int(RecordScope.FUNCTION), int(RecordScope.BACKWARD_FUNCTION)

# Kineto's activity types of device activities -> device type.
DEVICE_CATEGORIES = {
    **dict.fromkeys(
        (
            "kernel",
            "gpu_memcpy",
            "gpu_memset",
            "gpu_user_annotation",
            "cuda_sync",
            "cuda_event",
            "gpu_memory",
            "unified_memory",
        ),
        DeviceType.CUDA,
    ),
    "collective_comm": DeviceType.CUDA,
    "mtia_ccp_events": DeviceType.MTIA,
    "hpu_op": DeviceType.HPU,
}

# Args that become columns of numbers: name, column, value of rows without the arg.
NUMBERS = (
    ("Sequence number", "sequence_nr", -1),
    ("Fwd thread id", "fwd_thread", -1),
    ("Node id", "node_id", -1),
    ("Record function id", "record_function_id", 0),
    ("Python id", "python_id", -1),
    ("Python parent id", "python_parent_id", -1),
    ("Python module id", "python_module_id", -1),
    ("Call line", "call_line", 0),
)
LISTS = (
    ("Input Dims", "structured_input_shapes"),
    ("Input type", "input_dtypes"),
    ("Input Strides", "structured_input_strides"),
    ("Concrete Inputs", "concrete_inputs"),
)
# Args that encode a row's flags; fastprof's writer generates them again.
STATES = ("finished", "is_async", "End thread", "clock_discontinuity", "clamped", "enclosing")
_STATE = frozenset(STATES)
_FLAGS = (
    ("clock_discontinuity", int(EventFlag.CLOCK_DISCONTINUITY)),
    ("clamped", int(EventFlag.CLAMPED)),
    ("enclosing", int(EventFlag.ENCLOSING)),
)
_INT32 = 1 << 31
# A line must be below this to be kept: see csrc/include/fastprof/recorder/state/site.hpp.
_NO_LINE = 0xFFFF
_FRAMES = re.compile(r";\n?|\n")  # separator of a stack's frames
# Args of text that become columns: name, column, function from the text to the column's value.
TEXTS: tuple[tuple[str, str, Callable[[str], Any]], ...] = (
    ("Call stack", "stack", _FRAMES.split),
    ("Overload name", "overload_name", str),
    ("Module Hierarchy", "module_hierarchy", str),
)


def as_int(value: Any) -> int | None:
    """Return an integer of at most 64 bits, or its decimal text, as int; None for anything else."""
    if isinstance(value, str) and len(value) <= 20:
        try:
            value = int(value)
        except ValueError:
            return None
    return value if type(value) is int and -(1 << 63) <= value < 1 << 63 else None


def keeps_number(column: str, number: Any) -> Any:
    """Return whether an arg's number is a valid value of its column; `number` may be an array."""
    if column == "node_id":
        return (number >= -_INT32) & (number < _INT32)
    if column == "call_line":
        return (number > 0) & (number < _NO_LINE)
    # Kineto numbers threads from 1 and writes 0 for "no forward thread".
    return number != 0 if column == "fwd_thread" else number == number


def launches_kernels(category: Any) -> bool:
    """Return whether kernels with the "External id" of a range of this category belong to it."""
    return category in ("cpu_op", "user_annotation")


class ScopeRule:
    """Infer the RecordScope of ranges, which traces lack. Call in file order."""

    def __init__(self) -> None:
        self.backward_names: set[str] = set()

    def scope(self, name: str, category: Any, args: dict[str, Any]) -> int:
        """Return FUNCTION or BACKWARD_FUNCTION for an operator, else USER_SCOPE.

        A backward function has a forward thread, or its node has no sequence number
        (AccumulateGrad). In both cases a preceding range of the autograd engine contains its name.
        """
        if category != "cpu_op":
            return USER_SCOPE
        if name.startswith(ENGINE_RANGE_PREFIX):
            self.backward_names.add(name[len(ENGINE_RANGE_PREFIX) :])
            return _FUNCTION
        backward = name in self.backward_names or (as_int(args.get("Fwd thread id")) or 0) > 0
        return _BACKWARD_FUNCTION if backward else _FUNCTION


def range_state(args: dict[str, Any]) -> tuple[int, int]:
    """Return (kind, flags) of a complete event."""
    kind, flags = int(EventKind.RANGE), FINISHED
    if args.get("finished") is False:
        flags = 0
    if "End thread" in args:
        flags |= EventFlag.CROSS_THREAD_END
    elif args.get("is_async") is True:
        kind = int(EventKind.ASYNC_RANGE)
    for name, flag in _FLAGS:
        if args.get(name) is True:
            flags |= flag
    return kind, int(flags)


def put_args(
    builder: TableBuilder, row: int, args: dict[str, Any], *, has_state: bool = True
) -> None:
    """Store the args of a row in their columns, and all of them as JSON text in metadata_json.

    has_state: leave the args that range_state() reads out of the text.
    """
    for key, column, default in NUMBERS:
        if key in args:
            number = as_int(args[key])
            if number is not None and keeps_number(column, number):
                builder.put(column, row, number, default)
    for key, column in LISTS:
        value = args.get(key)
        if isinstance(value, list):
            builder.code(column, row, repr(value), value)
    for key, column, decode in TEXTS:
        text = args.get(key)
        if isinstance(text, str):
            builder.code(column, row, text, decode(text))
    if has_state and not _STATE.isdisjoint(args):
        args = {key: value for key, value in args.items() if key not in _STATE}
    if args:
        text = json.dumps(args)
        builder.code("metadata_json", row, text, text)
