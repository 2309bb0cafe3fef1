# SPDX-License-Identifier: Apache-2.0
"""EventStacks: call stacks of a Chrome trace's events: their member `stack`, or `sf` with the trace's stackFrames."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fastprof.importers.table_builder import TableBuilder

__all__ = ["EventStacks", "frames_of"]

_MOST_FRAMES = 1000  # frames name their parents, which could form a cycle


class EventStacks:
    """Adds stacks to rows: at once those in the event, at the end of the file those in stackFrames."""

    def __init__(self, rows: TableBuilder) -> None:
        self._rows = rows
        self._by_frame: list[tuple[int, str]] = []  # row and id of its innermost frame

    def __len__(self) -> int:
        return len(self._by_frame)

    def put(self, row: int, event: dict[str, Any]) -> None:
        """Keep the stack of an event, if it has one."""
        frames, frame = event.get("stack"), event.get("sf")
        if isinstance(frames, list) and frames:
            self._put(row, [str(each) for each in frames[:_MOST_FRAMES]])
        elif isinstance(frame, (str, int)):
            self._by_frame.append((row, str(frame)))

    def _put(self, row: int, frames: list[str]) -> None:
        self._rows.code("stack", row, repr(frames), frames)

    def finish(self, top: dict[str, Any], check: Callable[[], None]) -> dict[str, int]:
        """Resolve the frames; return counts of what was not read, by reason.

        top: the trace's other members. check: called at times; raises if too much memory is used.
        """
        known = top.get("stackFrames")
        known = known if isinstance(known, dict) else {}
        found: dict[str, list[str]] = {}
        missing = 0
        for row, frame in self._by_frame:
            if frame not in found:
                found[frame] = frames_of(known, frame)
                if len(found) % 64 == 0:
                    check()
            if found[frame]:
                self._put(row, found[frame])
            else:
                missing += 1
        return {"stack (sf) that stackFrames lacks": missing} if missing else {}


def frames_of(known: dict[str, Any], frame: Any) -> list[str]:
    """Return the names from an innermost frame outwards. known: the trace's stackFrames."""
    names: list[str] = []
    while isinstance(each := known.get(str(frame)), dict) and len(names) < _MOST_FRAMES:
        names.append(str(each.get("name", "")))
        if (frame := each.get("parent")) is None:
            break
    return names
