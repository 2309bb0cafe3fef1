# SPDX-License-Identifier: Apache-2.0
"""The args of Chrome trace events: which of them are columns, and what they say of the row."""

from __future__ import annotations

import json
import re
from typing import Any

from fastprof.base.device_type import DeviceType
from fastprof.importers.table_builder import FINISHED, TableBuilder
from fastprof.model.table import EventFlag, EventKind

__all__ = ["DEVICE_CATEGORIES", "ScopeRule", "as_int", "put_args", "range_state"]

# Kineto's activity types that happened on a device.
DEVICE_CATEGORIES = {
    **dict.fromkeys(
        ("kernel", "gpu_memcpy", "gpu_memset", "gpu_user_annotation", "cuda_sync", "cuda_event"),
        DeviceType.CUDA,
    ),
    "collective_comm": DeviceType.CUDA,
    "mtia_ccp_events": DeviceType.MTIA,
    "hpu_op": DeviceType.HPU,
}

_NUMBERS = (
    ("Sequence number", "sequence_nr", -1),
    ("Fwd thread id", "fwd_thread", -1),
    ("Node id", "node_id", -1),
    ("Record function id", "record_function_id", 0),
    ("Python id", "python_id", -1),
    ("Python parent id", "python_parent_id", -1),
    ("Python module id", "python_module_id", -1),
)
_VALUES = (
    ("Input Dims", "input_shapes"),
    ("Input type", "input_dtypes"),
    ("Input Strides", "structured_input_strides"),
    ("Concrete Inputs", "concrete_inputs"),
)
# What the flags of a row say; fastprof's writer adds them again.
_STATE = {
    "finished",
    "is_async",
    "End thread",
    "clock_discontinuity",
    "clamped",
    "enclosing",
}
_FLAGS = (
    ("clock_discontinuity", int(EventFlag.CLOCK_DISCONTINUITY)),
    ("clamped", int(EventFlag.CLAMPED)),
    ("enclosing", int(EventFlag.ENCLOSING)),
)
_INT32 = 1 << 31
_FRAMES = re.compile(r";\n?|\n")  # between the frames of a stack


def as_int(value: Any) -> int | None:
    """The value when it is an integer of 64 bits or the text of one, else None."""
    if isinstance(value, str) and len(value) <= 20:
        try:
            value = int(value)
        except ValueError:
            return None
    return value if type(value) is int and -(1 << 63) <= value < 1 << 63 else None


class ScopeRule:
    """The RecordScope of ranges, which traces do not carry, in the order of a trace."""

    _ENGINE_PREFIX = "autograd::engine::evaluate_function: "

    def __init__(self) -> None:
        self._backward_names: set[str] = set()

    def scope(self, name: str, category: Any, args: dict[str, Any]) -> int:
        """FUNCTION or BACKWARD_FUNCTION for an operator, else USER_SCOPE.

        A backward function has a forward thread, or its node has no sequence number
        (AccumulateGrad); in both cases the range of the autograd engine names it and comes first.
        """
        if category != "cpu_op":
            return 7
        if name.startswith(self._ENGINE_PREFIX):
            self._backward_names.add(name[len(self._ENGINE_PREFIX) :])
            return 0
        backward = name in self._backward_names or (as_int(args.get("Fwd thread id")) or 0) > 0
        return int(backward)


def range_state(args: dict[str, Any]) -> tuple[int, int]:
    """(kind, flags) of a complete event."""
    kind, flags = int(EventKind.RANGE), FINISHED
    if args.get("finished") is False:
        flags = 0
    if "End thread" in args:
        flags |= EventFlag.FOREIGN_END
    elif args.get("is_async") is True:
        kind = int(EventKind.ASYNC_RANGE)
    for name, flag in _FLAGS:
        if args.get(name) is True:
            flags |= flag
    return kind, int(flags)


def put_args(builder: TableBuilder, row: int, args: dict[str, Any]) -> None:
    """Fill the columns that the args of a row give; the args as JSON text are one of them."""
    for key, column, default in _NUMBERS:
        if key in args:
            number = as_int(args[key])
            if number is None or (column == "node_id" and not -_INT32 <= number < _INT32):
                continue
            # Kineto numbers threads from 1 and writes 0 where there is no forward thread.
            if number != 0 or column != "fwd_thread":
                builder.put(column, row, number, default)
    for key, column in _VALUES:
        value = args.get(key)
        if isinstance(value, list):
            builder.code(column, row, repr(value), value)
    stack = args.get("Call stack")
    if isinstance(stack, str):
        builder.code("stack", row, stack, _FRAMES.split(stack))
    overload = args.get("Overload name")
    if isinstance(overload, str):
        builder.code("overload_name", row, overload, overload)
    modules = args.get("Module Hierarchy")
    if isinstance(modules, str):
        builder.code("module_hierarchy", row, modules, modules)
    if not _STATE.isdisjoint(args):
        args = {key: value for key, value in args.items() if key not in _STATE}
    if args:
        text = json.dumps(args)
        builder.code("metadata_json", row, text, text)
