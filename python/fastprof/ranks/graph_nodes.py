# SPDX-License-Identifier: Apache-2.0
"""step_graph: the StepGraph of a step, from the events of all ranks.

The host of a rank is one chain (host_timeline.py), cut where it launches work and where it waits. Work of a device
begins after what precedes it in its stream and after its launch. If it begins later than 10 us after both, it has
waited for another stream: for the work that ended last before it. The host waits for a device in calls that
synchronise, and for a collective of gloo where it does nothing until the collective ends. A collective begins when the
last rank has come.
"""

from __future__ import annotations

import bisect
import re
from collections.abc import Mapping
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from fastprof.ranks.clocks import RankClock
from fastprof.ranks.collective_calls import is_host_collective
from fastprof.ranks.host_timeline import HostPiece, host_timeline
from fastprof.ranks.places import read_parquet
from fastprof.ranks.step_graph import RankRows, StepGraph, StepNode

__all__ = ["Calls", "ShardRows", "read_rows", "step_graph"]

Array: TypeAlias = NDArray[Any]
# Collectives of a rank that others took part in: (group, sequence) -> number of the call, its kind and group.
Calls: TypeAlias = Mapping[tuple[str, int], tuple[int, str]]
_READ = (
    *("start_ns", "duration_ns", "thread", "parent", "correlation"),
    *("name", "category", "group", "sequence"),
)
_DEVICE = ("kernel", "gpu_memcpy", "gpu_memset")
_BUSY = re.compile(r"cpu_op$|.*(runtime|driver)$")
_SYNCHRONISES = re.compile(r"(cuda|cu|hip)\w*Synchronize|(cuda|cu|hip)Memcpy(?!.*Async)")
_ISSUES = ("c10d::", "_c10d_functional::")  # ops that issue collectives or wait for them
_LATENCY_NS = 10_000  # of a launch; a device's work that begins later has waited for another stream


class ShardRows(NamedTuple):
    """Rows of a shard: COLUMNS of it by name; codes of texts, with the texts by name."""

    columns: dict[str, Array]
    texts: dict[str, list[str]]


def read_rows(path: str) -> ShardRows:
    """Read what graphs need of a shard. Raises what pyarrow does for a damaged file."""
    table = read_parquet(path, list(_READ)).unify_dictionaries().combine_chunks()
    columns: dict[str, Array] = {}
    texts: dict[str, list[str]] = {}
    for name in _READ:
        chunk = table[name].combine_chunks()
        chunk = chunk.chunk(0) if hasattr(chunk, "num_chunks") and chunk.num_chunks else chunk
        if name in ("name", "category", "group"):
            columns[name] = chunk.indices.fill_null(-1).to_numpy(zero_copy_only=False)
            texts[name] = chunk.dictionary.to_pylist()
        else:
            columns[name] = chunk.fill_null(-1).to_numpy(zero_copy_only=False)
    return ShardRows(columns, texts)


def step_graph(
    rows: Mapping[int, ShardRows],
    calls: Mapping[int, Calls],
    clocks: Mapping[int, RankClock],
    bounds: Mapping[int, tuple[int, int]],
) -> StepGraph:
    """Return the graph of a step.

    rows, calls: by rank. bounds: begin and end of the step by rank, ns of its clock. Ranks without a clock are left
    out.
    """
    nodes: list[StepNode] = []
    members: dict[int, list[tuple[int, int]]] = {}  # call -> (node of the enter, of the collective)
    begins, last, texts = {}, {}, {}
    for rank, (low, high) in bounds.items():
        if rank in clocks:
            one = _Rank(rank, rows[rank], calls[rank], clocks[rank], (low, high), nodes, members)
            begins[rank], last[rank] = one.low, one.build()
            found = rows[rank]
            texts[rank] = RankRows(
                found.columns["name"], found.columns["parent"], found.texts["name"]
            )
    for each in members.values():
        for _, collective in each:
            node = nodes[collective]
            came = [min(nodes[enter].end_ns, node.end_ns) for enter, _ in each]
            node.start_ns = max(came)
            node.before = [enter for enter, _ in each]
    return StepGraph(nodes, begins, last, texts)


class _Rank:
    """Adds the nodes of one rank's step."""

    def __init__(
        self, rank: int, rows: ShardRows, calls: Calls, clock: RankClock, bounds: tuple[int, int],
        nodes: list[StepNode], members: dict[int, list[tuple[int, int]]],
    ) -> None:  # fmt: skip
        self.rank, self.nodes, self.members, self.calls = rank, nodes, members, calls
        column, texts = rows.columns, rows.texts
        begin, finish = column["start_ns"], column["start_ns"] + column["duration_ns"]
        chosen = np.flatnonzero((finish > bounds[0]) & (begin < bounds[1]))
        self.row = chosen
        self.low, self.high = clock.to_reference(list(bounds)).tolist()
        self.start, self.end = (
            clock.to_reference(each[chosen]).clip(self.low, self.high) for each in (begin, finish)
        )
        self.thread, self.correlation = column["thread"][chosen], column["correlation"][chosen]
        self.name, self.names = column["name"][chosen], texts["name"]
        category, categories = column["category"][chosen], texts["category"]
        self.group, self.groups = column["group"][chosen], texts["group"]
        self.sequence = column["sequence"][chosen]
        step = self._named(lambda n: n.startswith("ProfilerStep#"))
        gloo = self._named(is_host_collective)
        of = np.array([*(each in _DEVICE for each in categories), False], np.bool_)
        self.device = of[category]
        hidden = np.array([*(each.startswith("gpu_") for each in categories), False], np.bool_)
        self.host = ~self.device & ~hidden[category] & ~step & ~gloo
        of = np.array([*(_BUSY.match(each) is not None for each in categories), False], np.bool_)
        issues = self._named(lambda n: n.startswith(_ISSUES))
        self.busy = of[category] & self.host & ~issues & ~_around(chosen, issues, column["parent"])
        self.gloo = gloo & (self.group >= 0)
        ops = self.thread[self.busy]
        self.main = int(np.bincount(ops).argmax()) if len(ops) else 0
        if step.any():
            self.main = int(self.thread[step][0])
        works = np.isin(self.thread, self.thread[gloo & (self.thread != self.main)])
        self.host &= ~works  # what gloo's threads do is in its collectives
        self.busy &= ~works
        self.cuts: set[int] = set()
        self.waits: list[tuple[int, int, int]] = []  # begin, end, node that is waited for
        self.launched: list[tuple[int, int]] = []  # node of a device, when the host launched it

    def _named(self, predicate: Any) -> Array:
        found: Array = np.array([*(bool(predicate(n)) for n in self.names), False], np.bool_)
        return found[self.name]

    def _add(self, what: str, name: str, start: int, end: int, row: int = -1) -> int:
        self.nodes.append(StepNode(self.rank, what, name, start, end, row))
        return len(self.nodes) - 1

    def build(self) -> int:
        """Add the nodes; return the last one of the host."""
        host = self.host
        timeline = host_timeline(
            np.where(host, self.start, 0), np.where(host, self.end, 0), self.thread, self.busy,
            self.main, self.low, self.high,
        )  # fmt: skip
        self._add_device()
        self._add_host_collectives(timeline)
        self._find_waits_for_devices()
        return self._add_host(timeline)

    def _call_of(self, at: int) -> tuple[int, str] | None:
        code = int(self.group[at])
        return None if code < 0 else self.calls.get((self.groups[code], int(self.sequence[at])))

    def _add_collective(self, call: tuple[int, str], enter: int, leave: int, row: int) -> int:
        """Add a node for the enter and one for the collective; return the former. The latter is the next one."""
        entered = self._add("device", call[1], enter, enter, row)
        self._add("collective", call[1], leave, leave, row)
        self.members.setdefault(call[0], []).append((entered, entered + 1))
        return entered

    def _add_device(self) -> None:
        at = np.flatnonzero(self.device & (self.end >= self.start))
        at = at[np.argsort(self.start[at], kind="stable")]
        launches = np.flatnonzero(self.host & (self.correlation > 0))
        launch_of = {int(self.correlation[n]): int(n) for n in launches.tolist()}
        ended: list[tuple[int, int, int]] = []  # end, stream, node; by end
        previous: dict[int, int] = {}  # stream -> node
        for n in at.tolist():
            start, end, stream = int(self.start[n]), int(self.end[n]), int(self.thread[n])
            launch = launch_of.get(int(self.correlation[n])) if self.correlation[n] > 0 else None
            row = -1 if launch is None else int(self.row[launch])
            call, name = self._call_of(n), self.names[int(self.name[n])]
            if call is None:
                first = final = self._add("device", name, start, end, row)
            else:
                first = self._add_collective(call, start, end, row)
                final = first + 1
            ready = self.low
            if stream in previous:
                self.nodes[first].before.append(previous[stream])
                ready = max(ready, self.nodes[previous[stream]].end_ns)
            if launch is not None:
                when = min(int(self.end[launch]), start)
                self.launched.append((first, when))
                self.cuts.add(when)
                ready = max(ready, when)
            if start - ready > _LATENCY_NS:
                place = bisect.bisect_right(ended, (start, 1 << 62, 0)) - 1
                while place >= 0 and ended[place][0] > ready:
                    if ended[place][1] != stream:
                        self.nodes[first].before.append(ended[place][2])
                        break
                    place -= 1
            previous[stream] = final
            bisect.insort(ended, (end, stream, final))
        self.device_ends = ended

    def _add_host_collectives(self, timeline: list[HostPiece]) -> None:
        ends = [each.end for each in timeline]
        at = np.flatnonzero(self.gloo)
        waited = self.low
        for n in at[np.argsort(self.end[at], kind="stable")].tolist():
            call = self._call_of(n)
            if call is None:
                continue
            enter, leave = int(self.start[n]), int(self.end[n])
            first = self._add_collective(call, enter, leave, -1)
            self.launched.append((first, enter))
            self.cuts.add(enter)
            place = bisect.bisect_left(ends, leave)
            if place == len(timeline) or timeline[place].busy:
                continue
            begin, piece = place, timeline[place]
            while begin >= 0 and not timeline[begin].busy:
                begin -= 1
            free = timeline[begin].end if begin >= 0 else self.low
            waits = max(free, enter, waited)
            if (enter >= free or leave - waits >= piece.end - leave) and leave > waits:
                self.waits.append((waits, leave, first + 1))
                waited = leave

    def _find_waits_for_devices(self) -> None:
        """Find what calls that synchronise wait for: the last work that had ended, of one stream or of each."""
        synchronises = self._named(lambda n: _SYNCHRONISES.match(n) is not None)
        whole = self._named(lambda n: "StreamSynchronize" not in n and "EventSynchronize" not in n)
        ends = [each[0] for each in self.device_ends]
        for n in np.flatnonzero(synchronises & self.busy).tolist():
            start, end = int(self.start[n]), int(self.end[n])
            place = bisect.bisect_right(ends, end) - 1
            streams: set[int] = set()
            resumes = max(start, ends[place]) if place >= 0 else start
            for ended, stream, node in reversed(self.device_ends[: place + 1]):
                if stream not in streams and (whole[n] or (not streams and ended > start)):
                    streams.add(stream)
                    self.waits.append((start, resumes, node))
            self.cuts.update((start, resumes))

    def _add_host(self, timeline: list[HostPiece]) -> int:
        """Add the host's chain, cut and without its waits; return its last node."""
        self.waits.sort()
        edges = {*self.cuts, *(time for begin, end, _ in self.waits for time in (begin, end))}
        edges.update(each.start for each in timeline)
        cuts = sorted(time for time in edges if self.low <= time <= self.high)
        waits = _union([(begin, end) for begin, end, _ in self.waits if end > begin])
        resumed: dict[int, list[int]] = {}  # time -> what the host had waited for
        for begin, end, node in self.waits:
            span = bisect.bisect_right(waits, (begin, 1 << 62)) - 1
            inside = span >= 0 and waits[span][0] <= begin < waits[span][1]
            resumed.setdefault(waits[span][1] if inside else end, []).append(node)
        node_at: dict[int, int] = {self.low: self._add("host", "", self.low, self.low)}
        previous, piece, wait = node_at[self.low], 0, 0
        for begin, end in zip(cuts, [*cuts[1:], self.high], strict=True):
            while wait < len(waits) and waits[wait][1] <= begin:
                wait += 1
            if end <= begin or (wait < len(waits) and waits[wait][0] <= begin):
                node_at.setdefault(end, previous)  # waiting, from what the chain goes on later
                continue
            while timeline[piece].end <= begin:
                piece += 1
            at = timeline[piece].row
            name = self.names[int(self.name[at])] if at >= 0 else ""
            node = self._add("host", name, begin, end, int(self.row[at]) if at >= 0 else -1)
            self.nodes[node].before = [previous, *resumed.pop(begin, ())]
            previous = node_at[end] = node
        final = self._add("host", "", self.high, self.high)
        self.nodes[final].before = [previous, *resumed.pop(self.high, ())]
        for node, when in self.launched:
            if when in node_at:
                self.nodes[node].before.append(node_at[when])
        return final


def _around(rows: Array, inner: Array, parent: Array) -> Array:
    """Return which rows enclose others of a mask, at any depth."""
    found = np.zeros(len(parent) + 1, np.bool_)
    at = parent[rows[inner]]
    while len(at):
        at = at[at >= 0]
        at = np.unique(at[~found[at]])
        found[at] = True
        at = parent[at]
    encloses: Array = found[rows]
    return encloses


def _union(spans: list[tuple[int, int]]) -> list[tuple[int, int]]:
    found: list[tuple[int, int]] = []
    for begin, end in sorted(spans):
        if found and begin <= found[-1][1]:
            found[-1] = (found[-1][0], max(found[-1][1], end))
        else:
            found.append((begin, end))
    return found
