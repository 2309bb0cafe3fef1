# SPDX-License-Identifier: Apache-2.0
"""Storages of a table: lifetimes of allocated memory, and the ops that read it, from rows in time order.

A storage is one life of an address: from its allocation, or from before the session, to its free. Inputs
of ops contain addresses, which refer to the storage that is alive at the begin of the op.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from fastprof.base import errors
from fastprof.base.record_scope import ENGINE_RANGE_PREFIX, RecordScope
from fastprof.model.memory_rows import is_python_allocator, memory_rows
from fastprof.model.table import EventTable

__all__ = ["Allocation", "OpStep", "Storage", "Touch", "can_categorise", "read_steps"]


@dataclass
class Storage:
    """One lifetime of allocated memory. Times are Unix ns; None: outside the recording.

    row: table row of its allocation, -1 for one from before the session.
    size_bytes: as allocated or freed; if the recording contains neither, the extent of its largest tensor.
    is_input: whether it is the input of an op. Other storages have no versions and no category.
    """

    index: int
    address: int
    device: str
    size_bytes: int = 0
    created_ns: int | None = None
    destroyed_ns: int | None = None
    row: int = -1
    is_input: bool = False


class Touch(NamedTuple):
    """An op's use of a storage as an input."""

    row: int
    position: int  # of the input
    storage: int


class Allocation(NamedTuple):
    """A memory record: an allocation or a free of a storage."""

    row: int
    time_ns: int
    storage: int
    is_free: bool


@dataclass
class OpStep:
    """An outermost op with everything that runs in it, or a memory record outside of ops (is_op False)."""

    row: int
    start_ns: int
    is_op: bool
    in_backward: bool
    touches: list[Touch]
    allocations: list[Allocation]


def can_categorise(table: EventTable) -> bool:
    """Return whether a table has what read_steps() requires."""
    return (
        "input_storages" in table.coded
        and table.has("parent")
        and any(not is_python_allocator(device) for device, _, _ in memory_rows(table))
    )


def read_steps(table: EventTable) -> tuple[list[Storage], list[OpStep]]:
    """Return the storages by index and the steps in time order, for the session's own process.

    Raises errors.ValueError for a table without allocations, or without storages of inputs (a profile
    has them with profile_memory=True and record_shapes=True).
    """
    # Python's allocators share the address space, but no tensor lies in their memory.
    memory = [one for one in memory_rows(table) if not is_python_allocator(one[0])]
    storages_of = table.coded.get("input_storages")
    if not memory or storages_of is None:
        what = "allocations" if not memory else "storages of op inputs"
        raise errors.ValueError(
            f"memory cannot be categorised: the recording contains no {what}. Profile PyTorch code "
            "with profile_memory=True and record_shapes=True."
        )
    if not table.has("parent"):
        raise errors.ValueError(
            "memory cannot be categorised: the table has no column 'parent', which gives the enclosing op of each"
            " row. Pass the table of a profile, or add the column."
        )
    parents: list[int] = table.column("parent").tolist()
    step_row, backward = _outermost_ops(table, parents)
    pids = np.array([track.pid for track in table.tracks.rows] or [0])
    own = (pids[table.column("track")] == table.pid) | (table.pid == 0)

    # (time, row, device, (address, size)) of each memory record, and (time, row, "", None) of each op with
    # tensors as inputs. A table's row order is the begin order of a thread, so the row breaks ties.
    accesses: list[tuple[int, int, str, tuple[int, int] | None]] = []
    start = table.start_ns
    for device, rows, words in memory:
        mine = own[rows]
        accesses.extend(
            (time, row, device, (address, size))
            for time, row, address, size in zip(
                start[rows[mine]].tolist(),
                rows[mine].tolist(),
                words[mine, 0].tolist(),
                words[mine, 1].tolist(),
                strict=True,
            )
        )
    touching = np.array(
        [any(True for _ in _tensors(value)) for value in storages_of.values] + [False]
    )
    op_rows = np.flatnonzero(touching[storages_of.codes] & own).tolist()
    accesses.extend((int(start[row]), row, "", None) for row in op_rows)
    accesses.sort(key=lambda one: one[:2])
    return _storages_and_steps(table, accesses, step_row, backward)


def _outermost_ops(table: EventTable, parents: Sequence[int]) -> tuple[list[int], list[bool]]:
    """Return for each row its outermost enclosing op (which may be the row itself), -1 for none, and whether
    the row is a backward function or inside of one.

    Ranges of the program, Python calls and the engine's own ranges around backward functions are not ops.
    """
    names, categories = table.sites.names, table.sites.field("category")
    is_op_site = [
        category == "cpu_op" and "::" in name and not name.startswith(ENGINE_RANGE_PREFIX)
        for name, category in zip(names, categories, strict=True)
    ]
    backward_site = [s == RecordScope.BACKWARD_FUNCTION for s in table.sites.field("scope")]
    site: list[int] = table.column("site").tolist()
    found: list[int] = [-2] * len(site)
    backward = [False] * len(site)
    for first in range(len(site)):
        path = []
        row = first
        while row >= 0 and found[row] == -2:
            path.append(row)
            row = parents[row]
        while path:  # from the outside in
            below = path.pop()
            above, in_backward = (found[row], backward[row]) if row >= 0 else (-1, False)
            backward[below] = in_backward or backward_site[site[below]]
            is_op = is_op_site[site[below]] or backward_site[site[below]]
            found[below] = above if above >= 0 or not is_op else below
            row = below
    return found, backward


def _storages_and_steps(
    table: EventTable,
    accesses: Sequence[tuple[int, int, str, tuple[int, int] | None]],
    step_row: Sequence[int],
    backward: Sequence[bool],
) -> tuple[list[Storage], list[OpStep]]:
    storages: list[Storage] = []
    live: dict[int, Storage] = {}
    steps: dict[int, OpStep] = {}
    start = table.start_ns
    inputs = table.coded["input_storages"]

    def step_of(row: int) -> OpStep:
        outer = step_row[row]
        key = outer if outer >= 0 else row
        step = steps.get(key)
        if step is None:
            step = steps[key] = OpStep(key, int(start[key]), outer >= 0, backward[row], [], [])
        return step

    def new(address: int, device: str, size: int, time: int | None, row: int) -> Storage:
        storage = Storage(len(storages), address, device, size, time, None, row)
        storages.append(storage)
        live[address] = storage
        return storage

    devices = {device for _, _, device, record in accesses if record is not None}
    only = next(iter(devices)) if len(devices) == 1 else ""
    for time, row, device, record in accesses:
        if record is None:
            for position, address, extent in _tensors(inputs[row]):
                known = live.get(address)
                touched = new(address, only, 0, None, -1) if known is None else known
                touched.is_input = True
                if touched.row < 0:
                    touched.size_bytes = max(touched.size_bytes, extent)
                step_of(row).touches.append(Touch(row, position, touched.index))
            continue
        address, size = record
        if size >= 0:
            storage = new(address, device, size, time, row)
        else:
            before = live.get(address)
            storage = new(address, device, -size, None, -1) if before is None else before
            del live[address]
            storage.destroyed_ns, storage.device, storage.size_bytes = time, device, -size
        step_of(row).allocations.append(Allocation(row, time, storage.index, size < 0))
    return storages, sorted(steps.values(), key=lambda step: (step.start_ns, step.row))


def _tensors(of_op: object) -> Iterator[tuple[int, int, int]]:
    """Yield (position, address, extent in bytes) of each tensor with memory among an op's inputs.

    Values of other types, which a file of another writer may contain, are skipped.
    """
    for position, one in enumerate(of_op if isinstance(of_op, list) else ()):
        if not isinstance(one, list):
            continue
        for tensor in one if any(isinstance(item, list) for item in one) else (one,):
            if isinstance(tensor, list) and len(tensor) == 2:
                address, size_bytes = tensor
                if isinstance(address, int) and isinstance(size_bytes, int):
                    yield position, address, size_bytes
