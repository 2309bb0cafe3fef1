# SPDX-License-Identifier: Apache-2.0
"""host_groups: the process group and sequence number of gloo's collectives, which their ranges do not have.

torch's flight recorder keeps both for the last collectives (2,000 by default) of each process. gloo runs the work of a
group on threads of that group, so that a range's thread says its group, and within a group, work begins in order. A
group has no numbers while a thread that may be its own is unknown.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

__all__ = ["RecordedCall", "host_groups", "recorded_calls"]

Array: TypeAlias = NDArray[Any]
_LATE = 16  # calls at the end of a recording that may have been issued, but not begun
_GROUP_THREADS = 2  # of gloo, for each of its network interfaces


class RecordedCall(NamedTuple):
    """A collective in torch's flight recorder. created_ns: Unix time of its issue. name: of its range.

    later: how many of that name were issued later, where some of them are left out; -1: none is.
    """

    created_ns: int
    name: str
    group: str
    sequence: int
    later: int = -1


def recorded_calls() -> list[RecordedCall] | None:
    """Return the collectives in this process's flight recorder, by group and sequence; None if the job has one group.

    Also None if torch.distributed is not in use or this version has no recorder for gloo. Any thread.
    """
    distributed = sys.modules.get("torch.distributed.distributed_c10d")
    native = sys.modules.get("torch._C._distributed_c10d")
    with suppress(Exception):  # private, and different in each version
        if distributed is None or native is None or distributed._world.group_count <= 1:
            return None
        entries = json.loads(native._dump_fr_trace_json(True, False))["entries"]
        found = [
            RecordedCall(
                int(each["time_created_ns"]),
                str(each["profiling_name"]),
                str(each["process_group"][0]),
                int(each["collective_seq_id"]),
            )
            for each in entries
            if not each.get("is_p2p")
        ]
        return sorted(found, key=lambda each: (each.group, each.sequence))
    return None


def host_groups(
    names: Sequence[str], start: Array, thread: Array, calls: Sequence[RecordedCall], end_ns: int
) -> tuple[list[str], Array]:
    """Return group and sequence number of each range; "" and -1 where they are unknown.

    names, start, thread: of the ranges, by start. calls: of recorded_calls(). end_ns: when they were read; the ranges
    of a group that begin later have the next numbers.
    """
    groups, sequence = [""] * len(names), np.full(len(names), -1, np.int64)
    known = [each for each in calls if each.created_ns <= end_ns]
    known.sort(key=lambda each: each.sequence)
    before = int(np.searchsorted(start, end_ns, side="right"))
    votes: dict[int, Counter[str]] = {}
    for name in set(names):  # paired by order, which is right unless two groups' threads raced
        rows = [at for at in range(before) if names[at] == name]
        issued = _in_line([each for each in known if each.name == name], len(rows) + _LATE)
        for at, each in _paired(names, start, rows, issued) or _by_place(rows, issued):
            votes.setdefault(int(thread[at]), Counter())[each.group] += 1
    of_thread = {number: found.most_common(1)[0][0] for number, found in votes.items()}
    threads_of = Counter(of_thread.values())
    whole = max([_GROUP_THREADS, *threads_of.values()])
    strangers = not of_thread.keys() >= set(thread.tolist())
    for group, known_threads in threads_of.items():
        if strangers and known_threads < whole:
            continue
        rows = [at for at, number in enumerate(thread.tolist()) if of_thread.get(number) == group]
        issued = [each for each in known if each.group == group]
        if pairs := _paired(names, start, [at for at in rows if at < before], issued):
            at, last = pairs[0]
            first = last.sequence - rows.index(at)
            for place, row in enumerate(rows):
                groups[row], sequence[row] = group, first + place
    return groups, sequence


def _paired(
    names: Sequence[str], start: Array, rows: list[int], calls: Sequence[RecordedCall | None]
) -> list[tuple[int, RecordedCall]]:
    """Return ranges with their calls, the last first: the latest calls that none precedes; [] if there are none."""
    for late in range(_LATE + 1):
        pairs = _by_place(rows, calls[: len(calls) - late])
        if pairs and all(names[at] == c.name and start[at] >= c.created_ns for at, c in pairs):
            return pairs
    return []


def _by_place(
    rows: list[int], calls: Sequence[RecordedCall | None]
) -> list[tuple[int, RecordedCall]]:
    pairs = zip(reversed(rows), reversed(calls), strict=False)
    return [(at, each) for at, each in pairs if each is not None]


def _in_line(calls: list[RecordedCall], most: int) -> list[RecordedCall | None]:
    """Return the calls of a name by issue, None for each that is left out; about the last `most`."""
    line: list[RecordedCall | None] = []
    for each in sorted(calls, reverse=True):
        if each.later < most:
            line += [None] * (each.later - len(line))
            line.append(each)
    return line[::-1]
