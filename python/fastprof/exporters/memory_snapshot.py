# SPDX-License-Identifier: Apache-2.0
"""Write a memory snapshot in the format of torch.cuda.memory._snapshot(), for PyTorch's memory viewer.

Format: a pickle of {"segments": [...], "device_traces": [[...]]} as torch/cuda/memory.py of PyTorch 2.13
documents it. It holds only dictionaries, lists, texts and numbers. fastprof never reads such files.
"""

from __future__ import annotations

import os
import pickle
from typing import Any

from fastprof.analysis.memory_categories.kinds import Action, category_name
from fastprof.analysis.memory_categories.origins import origin_of
from fastprof.analysis.memory_categories.profile import MemoryProfile
from fastprof.base import errors
from fastprof.exporters.atomic_file import atomic_binary

__all__ = ["export_memory_snapshot"]


def export_memory_snapshot(
    profile: MemoryProfile, path: str | os.PathLike[str], device: str | None = None
) -> None:
    """Write the recording's allocations and frees, and what is in use at its end.

    device: "cuda:0" or "cpu"; default: all devices of the type of the first. Open the file in PyTorch's
    memory viewer, which shows a device by its index. A block's name in it is the op that allocated it,
    with its category; below are the Python frames, if stacks were recorded. Each allocation is a segment
    of its own, because the allocator's segments are not part of a recording.

    Raises errors.ValueError for an unknown device, errors.IoError if the file cannot be written.
    """
    known = sorted({storage.device for storage in profile.storages})
    kind = device if device is not None else known[0].partition(":")[0]
    chosen = [name for name in known if kind in (name, name.partition(":")[0])]
    if not chosen:
        raise errors.ValueError(
            f"no memory of {device} was recorded, only of {', '.join(known)}. Name one of these."
        )
    numbers = {name: int(name.partition(":")[2]) for name in chosen}
    traces: list[list[dict[str, Any]]] = [[] for _ in range(max(numbers.values()) + 1)]
    segments = []
    frames = [_frames(profile, storage.index) for storage in profile.storages]
    for entry in profile.timeline:
        storage = profile.storages[entry.storage]
        if storage.device not in numbers or entry.action not in (Action.CREATE, Action.DESTROY):
            continue
        event = {
            "addr": storage.address,
            "size": storage.size_bytes,
            "stream": 0,
            "time_us": entry.time_ns // 1000,
            "frames": frames[entry.storage],
        }
        trace = traces[numbers[storage.device]]
        if entry.action is Action.CREATE:
            trace.append({"action": "alloc", **event})
        else:
            trace += (
                {"action": action, **event} for action in ("free_requested", "free_completed")
            )
    for storage in profile.storages:
        if storage.device in numbers and storage.destroyed_ns is None:
            segments.append(
                _segment(
                    storage.address,
                    storage.size_bytes,
                    numbers[storage.device],
                    frames[storage.index],
                )
            )
    with atomic_binary(path) as file:
        pickle.dump({"segments": segments, "device_traces": traces}, file, protocol=4)


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


def _frames(profile: MemoryProfile, storage: int) -> list[dict[str, Any]]:
    """Return frames as the viewer shows them, innermost first: the op and its category, then the stack."""
    origin = origin_of(profile, storage)
    op = origin.ranges[-1] if origin.ranges else "before the recording"
    category = category_name(profile.category(storage, 0))
    found = [{"name": f"{op} [{category}]", "filename": "??", "line": 0}]
    for frame in origin.stack:
        place, _, name = frame.partition("): ")
        filename, _, line = place.rpartition("(")
        number = int(line) if line.isdecimal() else 0
        found.append({"name": name or frame, "filename": filename or "??", "line": number})
    return found
