# SPDX-License-Identifier: Apache-2.0
"""TraceSamples: the sampled stacks of a Chrome trace become rows of tracks of their own, one for each sampled thread.

They are V8's profiles, in the events Profile and ProfileChunk of Chrome's DevTools; and the samples of the Trace Event
Format, in the member `samples` or as events of phase P, whose stacks lie in the member `stackFrames`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

from fastprof.base import errors
from fastprof.importers.chrome_ids import Id, id_of
from fastprof.importers.chrome_stacks import frames_of
from fastprof.importers.sampled.stack_rows import StackRows, StackTree
from fastprof.importers.sampled.v8_profile import V8Profile

__all__ = ["TraceSamples"]

_BAD_VALUE = (
    KeyError,
    IndexError,
    TypeError,
    ValueError,
    AttributeError,
    OverflowError,
    errors.FormatError,
)
_ENTRY_BYTES = 500
_MOST_NS = 1 << 61

# Returns the track of a process with this text as the thread id.
TrackOf = Callable[[Id, str], int]


class TraceSamples:
    """Samples in the order of the file; finish() makes rows of them."""

    def __init__(self) -> None:
        self._profiles: dict[Any, tuple[Id, Id, V8Profile]] = {}  # by (pid, id)
        self._bad: set[Any] = set()
        self._samples: list[dict[str, Any]] = []
        self._size = 0

    def estimate_bytes(self) -> int:
        """Return an upper bound of the memory of what is kept, in bytes."""
        return _ENTRY_BYTES * self._size

    def add(self, event: dict[str, Any]) -> bool:
        """Keep an event of phase P; return False if it is of another kind."""
        name = event.get("name")
        if name not in ("Profile", "ProfileChunk"):
            if "sf" not in event:
                return False
            self._samples.append(event)
            self._size += 1
            return True
        pid = id_of(event.get("pid"))
        key = (pid, str(event.get("id")))
        try:
            data = event["args"]["data"]
            if key not in self._profiles:
                start_us = data["startTime"] if "startTime" in data else event["ts"]
                self._profiles[key] = (pid, id_of(event.get("tid")), V8Profile(start_us))
            profile = self._profiles[key][2]
            before = len(profile)
            stacks = data.get("cpuProfile", {})
            profile.add(
                stacks.get("nodes", ()), stacks.get("samples", []), data.get("timeDeltas", [])
            )
            profile.end_us = stacks.get("endTime", data.get("endTime", profile.end_us))
            self._size += len(profile) - before
        except _BAD_VALUE:
            self._bad.add(key)
        return True

    def finish(
        self,
        rows: StackRows,
        top: dict[str, Any],
        names: dict[tuple[Id, Id], str],
        track_of: TrackOf,
    ) -> Counter[str]:
        """Add the rows; return counts of what was not read, by reason.

        top: the trace's other members. names: of the threads that have one, by (pid, tid).
        """
        skipped: Counter[str] = Counter()
        for key, (pid, tid, profile) in self._profiles.items():
            track = track_of(pid, f"{names.get((pid, tid)) or f'thread {tid}'} (samples)")
            try:
                profile.add_rows(rows, track)
            except _BAD_VALUE:
                self._bad.add(key)
        skipped["profile of V8 with values that cannot be read"] = len(self._bad)
        more = top.get("samples")
        known = top.get("stackFrames")
        pids = {tid: pid for pid, tid in names}
        threads: dict[tuple[Id, Id, str], list[tuple[int, list[str]]]] = {}
        for sample in [*self._samples, *(more if isinstance(more, list) else ())]:
            try:
                tid = id_of(sample.get("tid"))
                pid = id_of(sample["pid"]) if "pid" in sample else pids.get(tid, 0)
                stack = frames_of(known if isinstance(known, dict) else {}, str(sample["sf"]))
                if not stack:
                    raise KeyError("sf")
                found = round(1000 * sample["ts"]), stack
                if abs(found[0]) > _MOST_NS:
                    raise OverflowError
                threads.setdefault((pid, tid, str(sample.get("name", ""))), []).append(found)
            except _BAD_VALUE:
                skipped["sample without a time or a stack"] += 1
        for (pid, tid, name), samples in threads.items():
            kind = f"samples: {name}" if name else "samples"
            track = track_of(pid, f"{names.get((pid, tid)) or f'thread {tid}'} ({kind})")
            samples.sort(key=lambda sample: sample[0])
            tree = StackTree()
            placed = [(at, tree.path(map(rows.frame, reversed(stack)))) for at, stack in samples]
            # The format does not say how long the last sample lasted.
            end_ns = 2 * placed[-1][0] - placed[-2][0] if len(placed) > 1 else placed[-1][0]
            rows.add_samples(track, tree, placed, end_ns)
        return +skipped
