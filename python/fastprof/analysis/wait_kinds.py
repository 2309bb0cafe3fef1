# SPDX-License-Identifier: Apache-2.0
"""Kinds of waits, and the rules that recognise them by an event's category and name. Any thread.

The same name means different things in different categories: a range named `load_batch` waits for data, a Python
function of that name does not. In a category that is not listed here, from another profiler, the name alone decides.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from fastprof.analysis.named_rows import NamedRows
from fastprof.analysis.wait_patterns import SYNC_CALL
from fastprof.model.blocking_calls import FOR_A_THREAD

__all__ = [
    "ANOTHER_THREAD",
    "INPUT_OUTPUT",
    "KINDS",
    "POLL_REMEDY",
    "SLEEPING",
    "WaitKind",
    "kinds_of_rows",
]

Array: TypeAlias = NDArray[Any]
ANOTHER_THREAD, SLEEPING = "waiting for another thread", "sleeping"
INPUT_OUTPUT = "waiting for input or output"
# Of the sleeps of a library: the program cannot leave them out.
POLL_REMEDY = (
    "The library sleeps until something else is ready, such as work in other processes, which"
    " --follow records"
)
_RANGE, _CALL, _OP, _RUNTIME, _AWAIT = "range", "call", "op", "runtime", "await"
_OVERHEAD = "overhead"
_FORM_OF = {
    "user_annotation": _RANGE,
    "gpu_user_annotation": _RANGE,
    "python_function": _CALL,
    "cpu_op": _OP,
    "cuda_runtime": _RUNTIME,
    "cuda_driver": _RUNTIME,
    "cuda_sync": _RUNTIME,
    "overhead": _OVERHEAD,
    "task_await": _AWAIT,
    "task_lifetime": "task",
}


class WaitKind(NamedTuple):
    """A kind of wait. what: its name in reports. forms: pattern of names, by form of event. remedy: what to do."""

    what: str
    forms: dict[str, re.Pattern[str]]
    remedy: str


KINDS = (
    WaitKind(
        "garbage collection",
        {_RANGE: re.compile(r"^Python GC$"), _CALL: re.compile(r"^<built-in function collect>$")},
        "Freeze or disable the garbage collector in the loop, and collect between steps",
    ),
    WaitKind(
        "waiting for data",
        {
            _RANGE: re.compile(
                r"DataLoader.*__next__|\bdata[ _]?load(er|ing)?\b|\bload(ing)?[ _](the[ _])?(data|batch)\b",
                re.I,
            ),
            _CALL: re.compile(r"(^|[/\\])dataloader\.py\(\d+\): __next__$"),
            _OP: re.compile(r"DataLoader.*__next__"),
        },
        "Load data ahead: more workers for the loader, or prefetching",
    ),
    WaitKind(
        "waiting for the device",
        {
            _RUNTIME: SYNC_CALL,
            _RANGE: SYNC_CALL,
            # Only if a device was recorded: on the CPU, reading a value does not wait.
            _OP: re.compile(r"^aten::(item|_local_scalar_dense)$"),
            _CALL: re.compile(r"^<built-in method _cuda_synchronize"),
        },
        "Avoid the synchronization in the loop: read values every few steps only",
    ),
    WaitKind(
        "waiting for room in the device's queue",
        {
            _OVERHEAD: re.compile(r"^Command Buffer Full$")
        },  # CUPTI's word for a queue of 1,024 launches
        "The host is ahead of the device, which is the limit: make its work shorter",
    ),
    WaitKind(
        ANOTHER_THREAD,
        {
            _CALL: FOR_A_THREAD,
            _RANGE: re.compile(
                r"\b(acquire|wait for) (the )?lock\b|pthread_(mutex_lock|cond_wait)|"
                r"\b(acquire|__enter__)\b.*_thread\.R?lock",
                re.I,
            ),
        },
        "Shorten what the other thread does while this one waits, or do not wait for it in the loop",
    ),
    WaitKind(
        INPUT_OUTPUT,
        {
            _CALL: re.compile(
                r"^<(built-in )?method '?(recv(_into)?|sendall|accept|connect)\b.*socket|"
                r"^<built-in (function|method) (select|poll|epoll|fsync|wait|waitpid)\b|"
                r"^<(built-in )?method '?(poll|read|readinto|flush)\b.*(epoll|_io\.)"
            )
        },
        "Do input and output ahead or on another thread",
    ),
    WaitKind(
        SLEEPING,
        {_CALL: re.compile(r"^<built-in function sleep>$")},
        "Do not sleep in the loop: wait for the event itself",
    ),
    WaitKind(
        "suspended in a task",
        {_AWAIT: re.compile("")},
        "Start what the task awaits earlier, or await several things at once",
    ),
)


def kinds_of_rows(rows: NamedRows) -> Array:
    """Return for each row the index of its kind in KINDS, -1 for no wait."""
    table = rows.table
    has_device = _has_device(table.sites.field("category"))
    by_site = np.array(
        [
            _kind_of(name, category, has_device)
            for name, category in zip(table.sites.names, table.sites.field("category"), strict=True)
        ],
        np.int64,
    )
    if not len(by_site):
        return np.full(len(rows), -1, np.int64)
    found: Array = by_site[rows.tree.take(table.column("site"))]
    return found


def _has_device(categories: Sequence[str]) -> bool:
    return any(_FORM_OF.get(one) == _RUNTIME or one == "kernel" for one in categories)


def _kind_of(name: str, category: str, has_device: bool) -> int:
    if name.startswith("<built-in method __exit__") or "release" in name:
        return -1
    form = _FORM_OF.get(category)
    for number, kind in enumerate(KINDS):
        if form is None:
            # A category of another profiler: the patterns of all forms apply, save that of awaits, which
            # matches any name.
            matches = [p for f, p in kind.forms.items() if f != _AWAIT and (f != _OP or has_device)]
        else:
            pattern = kind.forms.get(form)
            needs_device = form == _OP and kind.what == "waiting for the device"
            matches = [pattern] if pattern is not None and (has_device or not needs_device) else []
        if any(pattern.search(name) for pattern in matches):
            return number
    return -1
