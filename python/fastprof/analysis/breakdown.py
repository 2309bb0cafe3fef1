# SPDX-License-Identifier: Apache-2.0
"""Where the steps' time went by module and by category: self times summed on columns. Any thread."""

from __future__ import annotations

from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from fastprof.analysis.steps import StepTimes

__all__ = ["Share", "by_category", "by_module"]

Array: TypeAlias = NDArray[Any]
_MODULE = "nn.Module: "  # name of a module's calls, as profiles with Python calls record them
_NO_MODULE = "outside of any module"
_CATEGORY_TEXTS = {
    "user_annotation": "ranges of the program",
    "python_function": "Python functions",
    "cpu_op": "ops of PyTorch",
    "cuda_runtime": "calls of the CUDA runtime",
    "cuda_driver": "calls of the CUDA driver",
    "cuda_sync": "synchronization",
    "overhead": "overhead of CUDA and its profiling",
    "task_lifetime": "tasks",
}
_WAITS = "waits"


class Share(NamedTuple):
    """Self time of one module or category. what: its name. ns: self time of its events in the steps.

    rows: the five events with the most self time, most first, as rows of NamedRows.
    """

    what: str
    ns: int
    rows: Array


def by_category(times: StepTimes) -> list[Share]:
    """Return self time by category of event, most first; all waits form a category "waits" of their own."""
    rows = _inside(times)
    table = times.events.table
    sites = times.events.tree.take(table.column("site"))[rows]
    words = [_CATEGORY_TEXTS.get(name, name) for name in table.sites.field("category")]
    known, code = np.unique(np.array([*words, _WAITS]), return_inverse=True)
    code = code.reshape(-1)
    of_row = np.where(_waiting(times, rows), code[-1], code[:-1][sites])
    return _shares(times, rows, of_row, known.tolist())


def _waiting(times: StepTimes, rows: Array) -> Array:
    """Return a mask of the rows that are a wait or inside of one."""
    waits = np.flatnonzero(times.wait_kind >= 0)
    if not len(waits):
        return np.zeros(len(rows), np.bool_)
    found: Array = (times.wait_kind[rows] >= 0) | (times.events.nearest(rows, waits) >= 0)
    return found


def by_module(times: StepTimes) -> list[Share]:
    """Return self time by module, most first: of the module's calls and all events in them, without inner modules.

    Modules are those of eager PyTorch where Python calls were recorded, and of TorchScript with
    with_modules=True; [] without either. Events outside of any module, such as backward, form one share.
    """
    events = times.events
    rows = _inside(times)
    hierarchy = events.table.coded.get("module_hierarchy")
    calls = events.where(lambda name: name.startswith(_MODULE))
    if len(calls):
        is_call = np.zeros(len(events) + 1, np.bool_)
        is_call[calls] = True
        owner = np.where(is_call[rows], rows, events.nearest(rows, calls))
        code = np.where(owner >= 0, events.name_id[owner], len(events.names))
        names = [*(name.removeprefix(_MODULE) for name in events.names), _NO_MODULE]
        return _with_modules(_shares(times, rows, code, names))
    if hierarchy is None:
        return []
    names = [*(str(value or _NO_MODULE) for value in hierarchy.values), _NO_MODULE]
    codes = events.tree.take(np.asarray(hierarchy.codes))[rows].astype(np.int64)
    code = np.where(codes >= 0, codes, len(names) - 1)
    return _with_modules(_shares(times, rows, code, names))


def _with_modules(shares: list[Share]) -> list[Share]:
    """Return the shares; [] if none of them is that of a module."""
    return shares if any(share.what != _NO_MODULE for share in shares) else []


def _inside(times: StepTimes) -> Array:
    inside = times.step_of >= 0
    inside[times.rows] = False
    return np.flatnonzero(inside)


def _shares(times: StepTimes, rows: Array, code: Array, names: list[str]) -> list[Share]:
    own = times.events.self_ns[rows]
    sums = np.bincount(code, own, len(names))
    found: dict[str, Share] = {}
    for number in np.argsort(-sums, kind="stable").tolist():
        if sums[number] <= 0:
            break
        mine = np.flatnonzero(code == number)
        longest = rows[mine[np.argsort(-own[mine], kind="stable")[:5]]]
        former = found.get(names[number])
        if former is None:
            found[names[number]] = Share(names[number], int(sums[number]), longest)
        else:
            found[names[number]] = former._replace(ns=former.ns + int(sums[number]))
    return sorted(found.values(), key=lambda share: -share.ns)
