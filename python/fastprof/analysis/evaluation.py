# SPDX-License-Identifier: Apache-2.0
"""BasicEvaluation: self, idle and queue times of events, and which events keep a device waiting.

Names and results as PyTorch's torch.profiler._utils publishes them, computed on columns. Differences, all where
the published results are wrong: overlapping intervals count once, launches are found, kernels are matched to
launches on any number of streams, idle time at the end counts, a single candidate is ranked. Inputs are never
modified.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from fastprof.analysis.device_queue import device_queue
from fastprof.analysis.intervals import Interval, covered_ns, union_of, without_union
from fastprof.analysis.traversal import source_code_location
from fastprof.analysis.tree_events import LazyRows, TreeEvent
from fastprof.base import errors
from fastprof.model.table import EventTable
from fastprof.model.tree import EventTree

__all__ = ["BasicEvaluation", "EventKey", "EventMetrics", "table_of"]

Array: TypeAlias = NDArray[Any]
_PEAK = 4  # least depth from which a fall of the queue to 0 counts


def table_of(source: Any) -> EventTable:
    """Return the table of an EventTable, an EventList, or a profile that has ended.

    Raises errors.ValueError for anything else.
    """
    if isinstance(source, EventTable):
        return source
    table = getattr(source, "event_table", None)
    if isinstance(table, EventTable):
        return table
    raise errors.ValueError(
        f"cannot analyse {type(source).__name__}. Pass a fastprof profile that has ended, an EventList "
        "of one, or what fastprof.load() returns."
    )


@dataclass
class EventMetrics:
    """Times of an event in ns, and the depth of the device's queue at its start."""

    duration_time_ns: int = 0
    self_time_ns: int = 0
    idle_time_ns: int = 0
    queue_depth: int = 0

    @property
    def fraction_idle_time(self) -> float:
        """Idle time divided by the duration; 0 for an event without a duration."""
        return self.idle_time_ns / self.duration_time_ns if self.duration_time_ns else 0.0


class EventKey:
    """An event as a key of a dictionary: hash and equality by its id."""

    __slots__ = ("event",)

    def __init__(self, event: Any) -> None:
        self.event = event

    def __hash__(self) -> int:
        return hash(self.event.id)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, EventKey) and bool(self.event.id == other.event.id)

    def __repr__(self) -> str:
        return str(self.event.name)

    def intervals_overlap(self, intervals: Iterable[Interval]) -> int:
        """Return how many ns of the event lie in the union of the intervals."""
        pairs = [(interval.start, interval.end) for interval in intervals]
        edges = np.array(pairs, np.int64).reshape(-1, 2)
        begin, end = np.array([[self.event.start_time_ns], [self.event.end_time_ns]], np.int64)
        return int(covered_ns(begin, end, union_of(edges[:, 0], edges[:, 1]))[0])


class _Metrics(Mapping[EventKey, EventMetrics]):
    """Metrics of a tree's events by EventKey; values are made when read."""

    def __init__(self, evaluation: BasicEvaluation) -> None:
        self._of = evaluation

    def __len__(self) -> int:
        return len(self._of.tree)

    def __iter__(self) -> Iterator[EventKey]:
        return iter(self._of.event_keys)

    def __getitem__(self, key: EventKey) -> EventMetrics:
        of, event = self._of, key.event
        if not isinstance(event, TreeEvent) or event.tree is not of.tree:
            raise KeyError(key)
        i = event.index
        return EventMetrics(
            int(of.duration_ns[i]), int(of.self_ns[i]), int(of.idle_ns[i]), int(of.queue_depth[i])
        )


class BasicEvaluation:
    """Metrics of the events of a profile or table; see the module.

    prof: a profile that has ended, an EventList, or a table from fastprof.load().

    metrics: EventKey -> EventMetrics. event_keys, events: by start. cuda_events: launches and kernels by start.
    queue_depth_list: an Interval for each of those. The columns, int64 by tree index: duration_ns, self_ns,
    idle_ns, queue_depth. Elements of all sequences are made when read. Any thread.

        BasicEvaluation(fastprof.load("train.json")).get_optimizable_events(5)
    """

    def __init__(self, prof: Any) -> None:
        self.profile = prof
        self.table = table_of(prof)
        full = EventTree.of(self.table)
        self.tree = full if full.on_cpu is None else full.without(~full.on_cpu)
        tree, table = self.tree, self.table
        self.start_ns: Array = tree.take(table.start_ns)
        self.end_ns: Array = tree.take(table.end_ns)
        self.duration_ns: Array = self.end_ns - self.start_ns
        self.self_ns: Array = tree.self_ns
        self.queue = device_queue(table)
        self.queue_depth: Array = self.queue.depth_at(self.start_ns)
        ordered = bool((self.start_ns[1:] >= self.start_ns[:-1]).all())
        order = np.arange(len(tree)) if ordered else np.argsort(self.start_ns, kind="stable")
        self.events = LazyRows(len(tree), lambda i: TreeEvent(tree, int(order[i])))
        self.event_keys = LazyRows(len(tree), lambda i: EventKey(self.events[i]))
        self.metrics: Mapping[EventKey, EventMetrics] = _Metrics(self)
        rows = EventTree(table, None, np.full(len(table), -1, np.int32))
        queue = self.queue
        self.cuda_events = LazyRows(len(queue.rows), lambda i: TreeEvent(rows, int(queue.rows[i])))
        self.queue_depth_list = LazyRows(len(queue.rows), self._queue_record)
        self.idle = self._idle()
        self.idle_ns: Array = covered_ns(self.start_ns, self.end_ns, self.idle)

    def _queue_record(self, index: int) -> Interval:
        row = int(self.queue.rows[index])
        start, end = int(self.table.start_ns[row]), int(self.table.end_ns[row])
        return Interval(start, end, int(self.queue.depth[index]))

    def _idle(self) -> tuple[Array, Array]:
        """Return when the device had no work queued, as a union.

        Before the first queue record, after the last, and from each fall to 0 until the next depth above 0. A
        kernel that runs keeps the device busy until it ends.
        """
        rows, depth = self.queue.rows, self.queue.depth
        if not len(rows) or not len(self.tree):
            return np.zeros(0, np.int64), np.zeros(0, np.int64)
        start, end = self.table.start_ns[rows], self.table.end_ns[rows]
        is_kernel = np.isin(rows, self.queue.kernels)
        busy_until = np.maximum.accumulate(np.where(is_kernel, end, start))
        empty = depth == 0
        falls = np.flatnonzero(empty & np.append(True, ~empty[:-1]))
        rises = np.flatnonzero(~empty)
        index = np.searchsorted(rises, falls)
        last = max(int(self.end_ns.max()), int(busy_until[-1]))
        until = np.append(start[rises], last)[index]
        # Within an empty stretch, kernels may still begin and end; subtract what they cover.
        begins = np.concatenate([[int(self.start_ns.min())], start[falls]])
        ends = np.concatenate([[start[0]], until])
        work = union_of(start[is_kernel], end[is_kernel])
        return without_union(union_of(begins, ends), work)

    def rank_events(self, length: int) -> list[EventKey]:
        """Return the `length` events with the highest score, best first.

        Candidates touch a window in which the queue fell from at least 4 to 0. Score: z(idle fraction) + 0.6
        z(self time), by the candidates' mean and sample standard deviation; a value that does not vary scores 0.
        """
        windows = self._windows_of_falls()
        overlap = covered_ns(self.start_ns, self.end_ns, windows)
        found = np.flatnonzero(overlap > 0)
        if not len(found):
            return []
        duration = np.maximum(self.duration_ns[found], 1)
        score = _standard(self.idle_ns[found] / duration) + 0.6 * _standard(self.self_ns[found])
        best = found[np.argsort(-score, kind="stable")][:length]
        return [EventKey(TreeEvent(self.tree, int(index))) for index in best]

    def _windows_of_falls(self) -> tuple[Array, Array]:
        """Return the windows from a peak of at least _PEAK to the next depth of 0, as a union."""
        depth = self.queue.depth
        start = self.table.start_ns[self.queue.rows]
        zeros = np.flatnonzero(depth == 0)
        begins, ends = np.append(-1, zeros)[:-1] + 1, zeros
        begins, ends = begins[ends > begins], ends[ends > begins]
        found = []
        if len(begins):
            # Each slice of reduceat() ends with the zeros up to the next begin, which never are its maximum.
            peaks = np.maximum.reduceat(depth, begins) >= _PEAK
            for low, high in zip(begins[peaks], ends[peaks], strict=True):
                # The last record of the greatest depth begins the fall.
                peak = high - 1 - int(np.argmax(depth[low:high][::-1]))
                found.append((start[peak], start[high]))
        windows = np.array(found, np.int64).reshape(-1, 2)
        return union_of(windows[:, 0], windows[:, 1])

    def get_optimizable_events(self, length: int = 1, print_enable: bool = True) -> list[EventKey]:
        """Return rank_events(length). print_enable: also print name, location and idle share of each event."""
        found = self.rank_events(length)
        if print_enable:
            print(self._text(found))
        return found

    def _text(self, found: list[EventKey]) -> str:
        line = "-" * 80
        blocks = (
            f"{line}\nEvent:                {key}\n"
            f"Source code location: {source_code_location(key.event)}\n"
            f"Percentage idle time: {self.metrics[key].fraction_idle_time * 100:.2f}%\n{line}"
            for key in found
        )
        head = "Optimizable events:\n" if found else "No events to optimize\n"
        return head + "\n".join(blocks)


def _standard(values: Array) -> Array:
    """Return z-scores by the sample standard deviation; 0 where the values do not vary."""
    if len(values) < 2 or not (spread := float(np.std(values, ddof=1))):
        return np.zeros(len(values))
    scores: Array = (values - np.mean(values)) / spread
    return scores
