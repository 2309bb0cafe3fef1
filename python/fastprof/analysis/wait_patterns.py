# SPDX-License-Identifier: Apache-2.0
"""Anti-patterns in which the program waits: each function returns (rows of the events, estimated gain in ns)."""

from __future__ import annotations

import re
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from fastprof.analysis.named_rows import NamedRows
from fastprof.base.distinct import distinct

__all__ = ["SYNC_CALL", "allocator_churn", "host_syncs", "synchronous_loader"]

Array: TypeAlias = NDArray[Any]
_NOTHING: tuple[Array, float] = (np.zeros(0, np.int64), 0.0)
_LOADER = re.compile(r"^enumerate\(DataLoader\)#_SingleProcessDataLoaderIter\.__next__$")
# Calls in which the host waits for a device.
SYNC_CALL = re.compile(
    r"^((cuda|hip)(Stream|Device|Event)Synchronize|cu(Stream|Ctx|Event)Synchronize)"
)
_READ_OPS = ("aten::item", "aten::_local_scalar_dense", "aten::nonzero", "aten::is_nonzero")
_DRIVER_MEMORY = re.compile(r"^(cuda|hip)(Malloc|Free)$|^cuMem(Alloc|Free)_v2$")
_MIN_DRIVER_CALLS = 20


def synchronous_loader(rows: NamedRows) -> tuple[Array, float]:
    """Find batches that a DataLoader without workers loaded on the loop's own thread."""
    found = rows.where(_LOADER.search)
    return found, rows.total_ns(rows.outermost(found))


def host_syncs(rows: NamedRows) -> tuple[Array, float]:
    """Find calls that wait for the device; a call inside of an op that reads a value is reported as that op."""
    calls = rows.where(SYNC_CALL.search)
    if not len(calls):
        return _NOTHING
    reads = rows.outermost(rows.named(*_READ_OPS, "aten::to", "aten::_to_copy", "aten::copy_"))
    reader = rows.nearest(calls, reads)
    return distinct(np.where(reader >= 0, reader, calls)), rows.total_ns(rows.outermost(calls))


def allocator_churn(rows: NamedRows) -> tuple[Array, float]:
    """Find allocations and frees by the driver, if there are at least 20."""
    found = rows.where(_DRIVER_MEMORY.search)
    return (
        (found, rows.total_ns(rows.outermost(found)))
        if len(found) >= _MIN_DRIVER_CALLS
        else _NOTHING
    )
