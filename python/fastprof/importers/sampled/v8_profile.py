# SPDX-License-Identifier: Apache-2.0
"""V8's profiles: .cpuprofile files (node --cpu-prof), and events Profile and ProfileChunk of DevTools' traces.

Format: https://chromedevtools.github.io/devtools-protocol/tot/Profiler/#type-Profile. In a trace, args.data of the
events adds nodes, samples and the times between them, and has times in us of the trace's clock.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from fastprof.base import errors
from fastprof.importers.sampled.stack_rows import StackRows, StackTree, malformed
from fastprof.importers.sampled.whole_file import json_object
from fastprof.importers.source import Source
from fastprof.model.table import EventTable

__all__ = ["V8Profile", "read_cpuprofile"]

_NO_STACK = ("(root)", "(idle)")


class V8Profile:
    """The nodes and samples of one profile. Bad values raise what reading them raises: see malformed()."""

    def __init__(self, start_us: float = 0) -> None:
        self.end_us: float | None = None
        self._at_us = start_us
        self._nodes: dict[Any, dict[str, Any]] = {}
        self._parent: dict[Any, Any] = {}
        self._samples: list[tuple[float, Any]] = []

    def __len__(self) -> int:
        return len(self._nodes) + len(self._samples)

    def add(self, nodes: Iterable[dict[str, Any]], samples: list[Any], deltas: list[Any]) -> None:
        """Add nodes, and samples with the us that passed before each."""
        for node in nodes:
            self._nodes[node["id"]] = node
            self._parent.update(dict.fromkeys(node.get("children", ()), node["id"]))
            if "parent" in node:
                self._parent[node["id"]] = node["parent"]
        for number, delta in zip(samples, deltas, strict=True):
            self._at_us += delta
            self._samples.append((self._at_us, number))

    def add_rows(self, rows: StackRows, track: int) -> None:
        """Add the profile's rows. Idle time has none."""
        frames = {number: _frame(rows, node["callFrame"]) for number, node in self._nodes.items()}
        tree = StackTree()
        place: dict[Any, int] = {}

        def place_of(number: Any) -> int:
            path = []
            while number is not None and number not in place:
                path.append(number)
                if len(path) > len(frames):
                    raise errors.FormatError("a node is its own caller")
                number = self._parent.get(number)
            at = -1 if number is None else place[number]
            for each in reversed(path):
                frame = frames[each]
                at = place[each] = at if frame is None else tree.child(at, frame)
            return at

        samples = [(round(1000 * at_us), place_of(number)) for at_us, number in self._samples]
        # V8 may report a sample some microseconds before the one it took earlier.
        samples.sort(key=lambda sample: sample[0])
        end_us = self._at_us if self.end_us is None else self.end_us
        rows.add_samples(track, tree, samples, round(1000 * end_us))


def read_cpuprofile(source: Source) -> EventTable:
    """Return the rows of a .cpuprofile: one thread."""
    document = json_object(source)
    rows = StackRows(source, "cpuprofile")
    with malformed(source):
        profile = V8Profile(document.get("startTime", 0))
        profile.add(document["nodes"], document["samples"], document["timeDeltas"])
        profile.end_us = document.get("endTime")
        profile.add_rows(rows, rows.track("main thread"))
        return rows.finish()


def _frame(rows: StackRows, call: dict[str, Any]) -> int | None:
    name = call.get("functionName", "")
    if name in _NO_STACK:
        return None
    url = call.get("url", "").removeprefix("file://")
    return rows.frame(name, url, int(call.get("lineNumber", -1)) + 1)
