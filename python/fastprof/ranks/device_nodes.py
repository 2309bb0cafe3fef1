# SPDX-License-Identifier: Apache-2.0
"""add_device_nodes: the work of a rank's devices in a step, what it waited for, and how the host waited for it.

Work begins after what precedes it in its stream and after its launch. A recorded wait is a node without duration in the
chain of its stream. Without any, work that begins later than 10 us after both has waited for another stream: for the
work that ended last before it.
"""

from __future__ import annotations

import bisect
from collections.abc import Iterable

import numpy as np

from fastprof.ranks.device_links import STREAM_WAIT
from fastprof.ranks.rank_nodes import RankNodes

__all__ = ["add_device_nodes"]

_LATENCY_NS = 10_000  # of a launch; a device's work that begins later has waited for another stream


def add_device_nodes(one: RankNodes) -> None:
    """Add the nodes of devices, and the waits of the host for them."""
    _Device(one).build()


class _Device:
    def __init__(self, one: RankNodes) -> None:
        self.one = one
        launches = np.flatnonzero(one.host & (one.correlation > 0))
        self.launch_of = {int(one.correlation[n]): int(n) for n in launches.tolist()}
        self.ended: list[tuple[int, int, int]] = []  # end, stream, node; by end
        self.previous: dict[int, int] = {}  # stream -> its last node
        self.node_of: dict[int, int] = {}  # row of the shard -> node
        # Of each stream, (number of the call, node) in order: what a wait for the stream waits for.
        self.items: dict[int, list[tuple[int, int]]] = {}

    def build(self) -> None:
        one, waits = self.one, self.one.rows.waits_recorded
        at = np.flatnonzero(one.device & (one.end >= one.start))
        at = at[np.argsort(one.start[at], kind="stable")]
        if not waits:
            for n in at.tolist():
                self._add_work(n, infer=True)
        elif len(at):
            self._add_recorded(at.tolist())
        self.ended.sort()
        self._find_waits_of_the_host()

    def _add_recorded(self, at: list[int]) -> None:
        """Add work and waits of streams in the order of their calls, so that what each waits for is there before."""
        one, rows = self.one, self.one.rows
        called: dict[int, int] = {}  # stream -> number of the last call
        order = []
        for n in at:
            stream, number = int(one.thread[n]), int(one.correlation[n])
            called[stream] = max(called.get(stream, 0), number)  # work without a number follows
            order.append((called[stream], int(one.start[n]), n, -1))
        column, names = rows.columns, rows.texts["name"]
        for row in np.flatnonzero(rows.sync & (column["correlation"] > 0)).tolist():
            if (
                names[int(column["name"][row])] == STREAM_WAIT
                and int(column["waits_for"][row]) >= 0
            ):
                order.append((int(column["correlation"][row]), 0, -1, row))
        for _, _, n, row in sorted(order):
            if n >= 0:
                self._add_work(n, infer=False)
            else:
                self._add_wait(row)

    def _add_work(self, n: int, infer: bool) -> None:
        one = self.one
        start, end, stream = int(one.start[n]), int(one.end[n]), int(one.thread[n])
        number = int(one.correlation[n])
        launch = self.launch_of.get(number) if number > 0 else None
        row = -1 if launch is None else int(one.row[launch])
        call, name = one.call_of(n), one.names[int(one.name[n])]
        if call is None:
            first = final = one.add("device", name, start, end, row)
        else:
            first = one.add_collective(call, start, end, row)
            final = first + 1
        ready = one.low
        if stream in self.previous:
            one.nodes[first].before.append(self.previous[stream])
            ready = max(ready, one.nodes[self.previous[stream]].end_ns)
        if launch is not None:
            when = min(int(one.end[launch]), start)
            one.launched.append((first, when))
            one.cuts.add(when)
            ready = max(ready, when)
        if infer and start - ready > _LATENCY_NS:
            place = bisect.bisect_right(self.ended, (start, 1 << 62, 0)) - 1
            while place >= 0 and self.ended[place][0] > ready:
                if self.ended[place][1] != stream:
                    one.nodes[first].before.append(self.ended[place][2])
                    break
                place -= 1
        self.previous[stream] = self.node_of[int(one.row[n])] = final
        self.items.setdefault(stream, []).append((number, final))
        entry = (end, stream, final)
        bisect.insort(self.ended, entry) if infer else self.ended.append(entry)

    def _add_wait(self, row: int) -> None:
        """Add a wait of a stream. What it waits for may be of an earlier step: then it does not wait here."""
        one, column = self.one, self.one.rows.columns
        stream = int(column["thread"][row])
        found = (self.previous.get(stream), self.node_of.get(int(column["waits_for"][row])))
        before = [each for each in found if each is not None]
        if found[1] is None:
            return
        time = max(one.nodes[each].end_ns for each in before)
        node = one.add("device", STREAM_WAIT, time, time)
        one.nodes[node].before = before
        self.previous[stream] = self.node_of[row] = node
        self.items.setdefault(stream, []).append((int(column["correlation"][row]), node))

    def _find_waits_of_the_host(self) -> None:
        """Find what calls that synchronise wait for: as recorded, else the last work that had ended."""
        one = self.one
        recorded: dict[int, int] = {}  # number of the call -> row of the wait
        for row in np.flatnonzero(one.rows.sync[one.row]).tolist():
            recorded[int(one.correlation[row])] = int(one.row[row])
        ends = [each[0] for each in self.ended]
        for n in np.flatnonzero(one.rows.synchronises[one.row] & one.busy).tolist():
            start, end = int(one.start[n]), int(one.end[n])
            wait = recorded.get(int(one.correlation[n])) if one.correlation[n] > 0 else None
            name = one.names[int(one.name[n])]
            if wait is not None:
                nodes = [each for each in self._recorded(wait) if one.nodes[each].end_ns <= end]
                resumes = max((one.nodes[each].end_ns for each in nodes), default=start)
                resumes = max(start, resumes)
            else:
                place = bisect.bisect_right(ends, end) - 1
                resumes = max(start, ends[place]) if place >= 0 else start
                whole = "StreamSynchronize" not in name and "EventSynchronize" not in name
                nodes = self._inferred(place, start, whole)
            one.waits.extend((start, resumes, node) for node in nodes)
            one.cuts.update((start, resumes))

    def _recorded(self, wait: int) -> list[int]:
        """Return the nodes that a recorded wait of the host waited for."""
        column = self.one.rows.columns
        name = self.one.names[int(column["name"][wait])]
        if not name.startswith("Context"):
            node = self.node_of.get(int(column["waits_for"][wait]))
            return [] if node is None else [node]
        number = int(column["correlation"][wait])
        spans: Iterable[list[tuple[int, int]]] = self.items.values()
        found = ([node for called, node in span if called < number] for span in spans)
        return [each[-1] for each in found if each]

    def _inferred(self, place: int, start: int, whole: bool) -> list[int]:
        """Return the last work of each stream, or, if it ended since `start`, of one."""
        streams: set[int] = set()
        found = []
        for ended, stream, node in reversed(self.ended[: place + 1]):
            if stream not in streams and (whole or (not streams and ended > start)):
                streams.add(stream)
                found.append(node)
        return found
