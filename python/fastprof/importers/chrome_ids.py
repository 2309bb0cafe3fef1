# SPDX-License-Identifier: Apache-2.0
"""Process and thread ids of a Chrome trace: numbers stay; texts, fractions and larger numbers get unused ones."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterator, Mapping
from typing import Any

from fastprof.importers.chrome_args import as_int
from fastprof.model.sites import Track

__all__ = ["PROFILER_PIDS", "Id", "described_processes", "id_of", "number_ids"]

Id = int | str  # an integer of at most 64 bits, or the text of anything else

# Process ids of Kineto's own marks.
PROFILER_PIDS = ("Spans", "Traces", "")


def id_of(value: Any) -> Id:
    """Return a process or thread id of an event; equal ids are the same process or thread."""
    if value is None:
        return 0
    if (isinstance(value, float) and value.is_integer()) or isinstance(value, bool):
        value = int(value)
    number = as_int(value)
    return str(value) if number is None else number


def number_ids(tracks: list[Track], ids: Mapping[int, tuple[Id, Id]]) -> dict[Id, int]:
    """Set numbers that no other process or thread of the file has in tracks whose ids are texts.

    ids: (pid, tid) by index of the track, of those that contain a text. Returns the pid of each text.
    """
    numeric = [(t.pid, t.tid) for i, t in enumerate(tracks) if i not in ids] + list(ids.values())
    pids = _unused({pid for pid, _ in numeric})
    tids = _unused({tid for _, tid in numeric})  # not only in its process: formats require it
    numbers: dict[Id, int] = {}
    for i, (pid, tid) in ids.items():
        if isinstance(pid, str) and pid not in numbers:
            numbers[pid] = 0 if pid in PROFILER_PIDS else next(pids)
        number = numbers[pid] if isinstance(pid, str) else pid
        tracks[i] = tracks[i]._replace(pid=number, tid=next(tids) if isinstance(tid, str) else tid)
    return numbers


def _unused(used: set[Any]) -> Iterator[int]:
    return (number for number in itertools.count(1) if number not in used)


def described_processes(names: Mapping[int, str], pids: Collection[int]) -> list[dict[str, Any]]:
    """Return metadata["processes"] of a trace: pid and name of each named process, if there is more than one.

    pids: of the processes with rows, without devices.
    """
    found = sorted(pids) if len(pids) > 1 else []
    return [{"pid": pid, "name": names[pid]} for pid in found if pid in names]
