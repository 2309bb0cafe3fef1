# SPDX-License-Identifier: Apache-2.0
"""Enums of the native module's headers: the only Python copy.

Most of the package works without the native module, so the values cannot be imported from it. A test
compares every name and value with the headers. EventKind and EventFlag (model/columns.py), RecordScope and DeviceType
(in this folder) are compared as well.
"""

from __future__ import annotations

import enum

__all__ = [
    "INCOMPLETE_CAUSES",
    "MAX_ARGS",
    "ArgType",
    "Category",
    "DetailFlag",
    "DetailType",
    "DropCause",
    "InputBit",
    "InputKind",
    "OverflowPolicy",
    "ProfilerState",
]

MAX_ARGS = 12  # maximum number of typed arguments of a site


class ArgType(enum.IntEnum):
    """Type of one argument word."""

    INT64 = 0
    UINT64 = 1
    FLOAT64 = 2
    BOOLEAN = 3
    STRING = 4
    POINTER = 5


class DetailType(enum.IntEnum):
    """Type of a detail block of a record. Its head word is type | count << 16 | flags << 32."""

    COUNTERS_BEGIN = 1
    COUNTERS_END = 2
    CPP_STACK = 3
    PYTHON_STACK = 4
    OP = 5
    OP_INPUTS = 6
    JSON = 7
    NOTHING = 8
    MODULES = 9
    OP_INPUTS_REF = 10
    OVERLOAD = 11


class DetailFlag(enum.IntEnum):
    """Flags of a counter block or native stack block."""

    WRITTEN = 1
    UNAVAILABLE = 2
    TRUNCATED = 4


class InputKind(enum.IntEnum):
    """Kind of an op's input: bits 0 to 3 of its head word."""

    OTHER = 0
    TENSOR = 1
    UNDEFINED = 2
    INTEGER = 3
    REAL = 4
    BOOLEAN = 5
    COMPLEX = 6
    LIST = 7
    TENSOR_LIST = 8
    TEXT = 9


class InputBit(enum.IntEnum):
    """Bits of an input's head word; bit 4 means WIDE for tensors and PACKED for lists."""

    WIDE = 1 << 4
    PACKED = 1 << 4
    STRIDES = 1 << 5
    CUT = 1 << 6
    STORAGE = 1 << 7


class Category(enum.IntEnum):
    """Bits of a site's mask. A session records the sites whose mask intersects its own."""

    USER = 1 << 0
    OP = 1 << 1
    MEMORY = 1 << 2
    COUNTER = 1 << 3
    MARK = 1 << 4
    FLOW = 1 << 5
    ASYNC = 1 << 6
    PYTHON_CALL = 1 << 7
    RUNTIME = 1 << 8
    DEVICE = 1 << 9
    TASK = 1 << 10
    PYTHON_MODULE = 1 << 11
    CUSTOM0 = 1 << 16
    ALL = (1 << 24) - 1


class OverflowPolicy(enum.IntEnum):
    """What a session does when it reaches its memory bound."""

    DROP_NEWEST = 0
    OVERWRITE_OLDEST = 1
    SPILL_TO_FILE = 2


class DropCause(enum.IntEnum):
    """Why an event is missing from a capture, or incomplete; the keys of `dropped`, in lower case."""

    BOUND = 0
    OVERWRITTEN = 1
    IN_FLIGHT = 2
    REENTRANT = 3
    THREAD_EXIT = 4
    CLOCK = 5
    SPILL_FAILED = 6
    NAMES = 7
    ENDS = 8
    DEVICE = 9


# Causes whose events are in the capture, but without their name or end.
INCOMPLETE_CAUSES = (DropCause.NAMES, DropCause.ENDS)


class ProfilerState(enum.IntEnum):
    """What the exclusive profiler records. PyTorch's names and values."""

    DISABLED = 0
    CPU = 1
    CUDA = 2
    NVTX = 3
    ITT = 4
    PRIVATEUSE1 = 5
    KINETO = 6
    KINETO_GPU_FALLBACK = 7
    KINETO_PRIVATEUSE1_FALLBACK = 8
    KINETO_PRIVATEUSE1 = 9
    KINETO_ONDEMAND = 10
