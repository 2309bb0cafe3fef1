# SPDX-License-Identifier: Apache-2.0
"""StackRows: makes rows of sampled stacks, one for each frame for as long as it is on the stack."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from fastprof.base import errors
from fastprof.importers.source import Source
from fastprof.importers.table_builder import TableBuilder
from fastprof.model.sites import Site
from fastprof.model.table import EventTable

__all__ = ["NS_PER_UNIT", "StackRows", "StackTree", "malformed"]

# Names of units in the formats, and their length in ns. Amounts without a unit of time are shown as ns.
NS_PER_UNIT = {
    "nanoseconds": 1, "ns": 1, "microseconds": 1_000, "us": 1_000, "µs": 1_000,
    "milliseconds": 1_000_000, "ms": 1_000_000, "seconds": 1_000_000_000, "s": 1_000_000_000,
}  # fmt: skip

_NODE_BYTES = 300
_ROWS_BETWEEN_CHECKS = 1 << 16


class StackTree:
    """The stacks of one thread: a node is a frame below another node, -1 the empty stack."""

    def __init__(self) -> None:
        self.parent: list[int] = []
        self.frame: list[int] = []
        self.depth: list[int] = []
        self._known: dict[tuple[int, int], int] = {}

    def child(self, parent: int, frame: int) -> int:
        """Return the node of `frame` called from `parent`."""
        size = len(self.frame)
        node = self._known.setdefault((parent, frame), size)
        if node == size:
            self.parent.append(parent)
            self.frame.append(frame)
            self.depth.append(self.depth[parent] + 1 if parent >= 0 else 0)
        return node

    def path(self, frames: Iterable[int]) -> int:
        """Return the node of a stack, outermost frame first."""
        node = -1
        for frame in frames:
            node = self.child(node, frame)
        return node


class StackRows:
    """Rows of a profile; `source` limits their memory. kind: value of metadata["format"].

    builder: gets the rows; by default a new one, whose table finish() returns.
    """

    def __init__(self, source: Source, kind: str, builder: TableBuilder | None = None) -> None:
        self.builder = TableBuilder() if builder is None else builder
        self.samples = 0
        self._source = source
        self._kind = kind
        self._nodes = 0
        self._next_check = _ROWS_BETWEEN_CHECKS

    def frame(self, name: str, file: str = "", line: int = 0) -> int:
        """Return the number of a frame; line: from 1, 0 if unknown."""
        if not 0 < line < 1 << 32:
            line = 0
        shown = name or "(anonymous)"
        if file:
            short = file.rsplit("/", 1)[-1]
            shown = f"{shown} ({short}:{line})" if line > 0 else f"{shown} ({short})"
        return self.builder.site_of(
            Site(shown, category="sample", file=file, function=name, line=line)
        )

    def track(self, name: str, pid: int = 0, tid: int = 0, key: Any = None) -> int:
        """Return the track of a thread, which `key` (default: pid, tid and name) identifies."""
        track = self.builder.track_of((pid, tid, name) if key is None else key, pid, tid)
        if name:
            self.builder.name_track(track, name)
        return track

    def add_samples(
        self, track: int, tree: StackTree, samples: Iterable[tuple[int, int]], end_ns: int
    ) -> None:
        """Add rows for samples (ns, node) in the order of time; each lasts until the next, the last until `end_ns`."""
        add, ends = self.builder.add, self.builder.end
        parent, frame, depth = tree.parent, tree.frame, tree.depth
        rows: list[int] = []  # of the frames on the stack
        current, now = -1, None
        for at, node in samples:
            if now is not None and at < now:
                raise errors.FormatError("the samples are not in the order of time")
            now = at
            self.samples += 1
            if node == current:
                continue
            shared, other = current, node
            while shared != other:
                if other < 0 or (shared >= 0 and depth[shared] > depth[other]):
                    shared = parent[shared]
                elif shared < 0 or depth[other] > depth[shared]:
                    other = parent[other]
                else:
                    shared, other = parent[shared], parent[other]
            kept = depth[shared] + 1 if shared >= 0 else 0
            while len(rows) > kept:
                ends[rows.pop()] = at
            current = node
            opened = []
            while node != shared:
                opened.append(frame[node])
                node = parent[node]
            for each in reversed(opened):
                rows.append(add(0, at, at, each, track))
            self._check()
        for row in rows:
            ends[row] = max(end_ns, now or 0)
        self._nodes += len(frame)

    def add_weights(
        self, track: int, tree: StackTree, weights_ns: dict[int, int], origin_ns: int = 0
    ) -> None:
        """Add one row a node, callees one after the other inside of their caller: for sums without times.

        weights_ns: time in which each node was the innermost one.
        """
        size = len(tree.frame)
        total = [weights_ns.get(node, 0) for node in range(size)]
        for node in range(size - 1, -1, -1):  # a node follows its caller
            if tree.parent[node] >= 0:
                total[tree.parent[node]] += total[node]
        at = [0] * size
        top = origin_ns
        for node in range(size):
            caller = tree.parent[node]
            if caller < 0:
                at[node], top = top, top + total[node]
                start = at[node]
            else:
                start = at[caller]
                at[caller] += total[node]
                at[node] = start
            self.builder.add(0, start, start + total[node], tree.frame[node], track)
            self._check()
        self._nodes += size

    def _check(self) -> None:
        if len(self.builder) >= self._next_check:
            self._next_check = len(self.builder) + _ROWS_BETWEEN_CHECKS
            self._source.budget.check(self.builder.estimate_bytes() + _NODE_BYTES * self._nodes)

    def finish(self, process_name: str = "", pid: int = 0, **metadata: Any) -> EventTable:
        """Return the table. Call once. pid: of its process; 0: the one that all tracks have, if they have only one."""
        self._source.budget.check(self.builder.estimate_bytes() + _NODE_BYTES * self._nodes)
        facts = {"format": self._kind, "stack_samples": self.samples, **metadata}
        begin_ns = min(self.builder.start, default=0)
        pids = {track.pid for track in self.builder.tracks} - {0}
        pid = pid or (pids.pop() if len(pids) == 1 else 0)
        return self.builder.finish(
            metadata=facts, t0_ns=begin_ns, process_name=process_name, pid=pid
        )


@contextmanager
def malformed(source: Source) -> Iterator[None]:
    """Turn what a reader meets in a malformed profile into errors.FormatError with the file's path."""
    try:
        yield
    except errors.FormatError as error:
        text = str(error)
        raise errors.FormatError(
            text if text.startswith(source.path) else f"{source.path}: {text}"
        ) from None
    except (KeyError, IndexError, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise errors.FormatError(
            f"{source.path}: a malformed profile ({type(error).__name__}: {error})"
        ) from None
