# SPDX-License-Identifier: Apache-2.0
"""Memory snapshots in the format of torch.cuda.memory._snapshot(), for PyTorch's memory viewer.

Format: {"segments": [...], "device_traces": [[...]]} as torch/cuda/memory.py of PyTorch 2.13 documents it; a
file is its pickle. It contains only dictionaries, lists, texts and numbers. fastprof never reads such files.
"""

from __future__ import annotations

import os
import pickle
from collections.abc import Sequence
from typing import Any

import numpy as np

from fastprof.analysis.memory_blocks import Blocks, memory_blocks
from fastprof.analysis.memory_categories.kinds import category_name
from fastprof.analysis.memory_categories.profile import MemoryProfile
from fastprof.analysis.memory_origin import BEFORE, OUTSIDE, Origin, origin_around
from fastprof.base import errors
from fastprof.base.atomic_file import atomic_binary
from fastprof.base.device_type import is_device
from fastprof.model.memory_rows import FailedRequest, failed_requests
from fastprof.model.table import EventTable

__all__ = ["memory_snapshot", "write_snapshot"]

_BEFORE = Origin((BEFORE,))


def memory_snapshot(
    table: EventTable, categories: MemoryProfile | None = None, device: str | None = None
) -> dict[str, Any]:
    """Return the snapshot of a recording: its allocations and frees, and the blocks in use at its end.

    categories: of the same table; blocks are then named by their category, too.
    device: "cuda:0", "cpu" or "python"; default: all devices of the type of the first.

    The viewer shows a device by its index; Python's allocators are numbered from 0. A block's name in the viewer is
    the op or range that allocated it, followed by the Python frames if stacks were recorded. Each block is a segment
    of its own, because a recording does not contain the allocator's segments. Failed requests are events "oom".

    Raises errors.ValueError for an unknown device, and for a table without memory records.
    """
    blocks = memory_blocks(table)
    failures = failed_requests(table)
    known = list(dict.fromkeys([*(one.device for one in blocks), *(f.device for f in failures)]))
    if not known:
        raise errors.ValueError(
            "the recording contains no memory records. Profile with profile_memory=True or python_memory=True."
        )
    kind = device if device is not None else known[0].partition(":")[0]
    chosen = [name for name in known if is_device(name, kind)]
    if not chosen:
        raise errors.ValueError(
            f"no memory of {device} was recorded, only of {', '.join(known)}. Name one of these."
        )
    numbers = {name: _number(name, i) for i, name in enumerate(chosen)}
    names = _category_names(categories)
    traces: list[list[dict[str, Any]]] = [[] for _ in range(max(numbers.values()) + 1)]
    segments: list[dict[str, Any]] = []
    for one in blocks:
        if one.device in numbers:
            frames = _frames_of_blocks(one, names)
            own = [f for f in failures if f.device == one.device]
            traces[numbers[one.device]] = _trace(one, frames, own)
            segments += [
                _segment(
                    int(one.address[b]), int(one.size_bytes[b]), numbers[one.device], frames[b]
                )
                for b in np.flatnonzero(one.destroyed < 0).tolist()
            ]
    with_blocks = {one.device for one in blocks}
    for name in chosen:
        if name not in with_blocks:
            traces[numbers[name]] = [_oom(table, f, 0) for f in failures if f.device == name]
    segments += _segments_from_before(categories, numbers)
    return {"segments": segments, "device_traces": traces}


def write_snapshot(snapshot: dict[str, Any], path: str | os.PathLike[str]) -> None:
    """Write a snapshot as a pickle; gzip if the path ends in .gz. Raises errors.IoError if it cannot be written."""
    with atomic_binary(path) as file:
        pickle.dump(snapshot, file, protocol=4)


def _number(name: str, place: int) -> int:
    index = name.partition(":")[2]
    return int(index) if index.isdecimal() else place


def _category_names(categories: MemoryProfile | None) -> dict[int, str]:
    """Return the category of each allocation by its table row, and of storages from before by minus their address."""
    if categories is None:
        return {}
    return {
        storage.row if storage.row >= 0 else -storage.address: category_name(
            categories.category(storage.index, 0)
        )
        for storage in categories.storages
    }


def _segments_from_before(
    categories: MemoryProfile | None, numbers: dict[str, int]
) -> list[dict[str, Any]]:
    """Return segments of the storages from before the recording that ops read and that were not freed."""
    if categories is None:
        return []
    return [
        _segment(
            storage.address,
            storage.size_bytes,
            numbers[storage.device],
            _frames(_BEFORE, category_name(categories.category(storage.index, 0))),
        )
        for storage in categories.storages
        if storage.row < 0 and storage.destroyed_ns is None and storage.device in numbers
    ]


def _frames_of_blocks(blocks: Blocks, names: dict[int, str]) -> list[list[dict[str, Any]]]:
    """Return the frames of each block; blocks of one origin and category share them."""
    made: dict[tuple[int, str], list[dict[str, Any]]] = {}
    found = []
    rows = blocks.record_rows
    owners = blocks.allocating_rows(np.arange(len(blocks))).tolist()
    for block, record in enumerate(blocks.created.tolist()):
        key = int(rows[record]) if record >= 0 else -int(blocks.address[block])
        around = owners[block]
        name = names.get(key, "unknown" if names else "")
        if (around, name) not in made:
            origin = _BEFORE if around == -2 else origin_around(blocks.table, around)
            made[around, name] = _frames(origin, name)
        found.append(made[around, name])
    return found


def _frames(origin: Origin, category: str) -> list[dict[str, Any]]:
    """Return frames as the viewer shows them, innermost first: op and category, then the stack."""
    op = origin.ranges[-1] if origin.ranges else OUTSIDE
    found = [{"name": f"{op} [{category}]" if category else op, "filename": "??", "line": 0}]
    for frame in origin.stack:
        place, _, name = frame.partition("): ")
        filename, _, line = place.rpartition("(")
        number = int(line) if line.isdecimal() else 0
        found.append({"name": name or frame, "filename": filename or "??", "line": number})
    return found


def _trace(
    blocks: Blocks, frames: Sequence[list[dict[str, Any]]], failures: Sequence[FailedRequest]
) -> list[dict[str, Any]]:
    by_record: dict[int, tuple[int, bool]] = {}
    for block, (created, destroyed) in enumerate(
        zip(blocks.created.tolist(), blocks.destroyed.tolist(), strict=True)
    ):
        if created >= 0:
            by_record[created] = (block, False)
        if destroyed >= 0:
            by_record[destroyed] = (block, True)
    trace: list[dict[str, Any]] = []
    waiting = list(reversed(failures))
    times, in_use_bytes = blocks.record_ns.tolist(), blocks.in_use_bytes
    for record, (block, is_free) in sorted(by_record.items()):
        while waiting and waiting[-1].time_ns < times[record]:
            before = int(in_use_bytes[record]) - int(blocks.record_bytes[record])
            trace.append(_oom(blocks.table, waiting.pop(), before))
        event = {
            "addr": int(blocks.address[block]),
            "size": int(blocks.size_bytes[block]),
            "stream": 0,
            "time_us": times[record] // 1000,
            "frames": frames[block],
        }
        actions = ("free_requested", "free_completed") if is_free else ("alloc",)
        trace += ({"action": action, **event} for action in actions)
    trace += (_oom(blocks.table, failure, int(in_use_bytes[-1])) for failure in reversed(waiting))
    return trace


def _oom(table: EventTable, failure: FailedRequest, in_use_bytes: int) -> dict[str, Any]:
    """Return the event of a failed request. The device's free memory is unknown: "device_free" is 0."""
    return {
        "action": "oom",
        "addr": 0,
        "device_free": 0,
        "size": failure.size_bytes,
        "stream": 0,
        "time_us": failure.time_ns // 1000,
        "frames": _frames(origin_around(table, failure.enclosing), f"{in_use_bytes} bytes in use"),
    }


def _segment(address: int, size: int, device: int, frames: list[dict[str, Any]]) -> dict[str, Any]:
    block = {
        "address": address,
        "size": size,
        "requested_size": size,
        "state": "active_allocated",
        "frames": frames,
    }
    sizes = dict.fromkeys(("total_size", "allocated_size", "active_size", "requested_size"), size)
    return {
        "address": address,
        **sizes,
        "device": device,
        "stream": 0,
        "segment_type": "large" if size > 1 << 20 else "small",
        "segment_pool_id": (0, 0),
        "is_expandable": False,
        "frames": frames,
        "blocks": [block],
    }
