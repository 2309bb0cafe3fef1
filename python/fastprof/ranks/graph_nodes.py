# SPDX-License-Identifier: Apache-2.0
"""step_graph: the StepGraph of a step, from the events of all ranks.

The host of a rank is one chain (host_timeline.py), cut where it launches work and where it waits: for a device in calls
that synchronise (device_nodes.py), and for a collective of gloo where it does nothing until the collective ends. A
collective begins when the last rank has come.
"""

from __future__ import annotations

import bisect
from collections.abc import Mapping

import numpy as np

from fastprof.ranks.clocks import RankClock
from fastprof.ranks.device_nodes import add_device_nodes
from fastprof.ranks.host_timeline import HostPiece, host_timeline
from fastprof.ranks.rank_nodes import Calls, RankNodes
from fastprof.ranks.shard_rows import ShardRows
from fastprof.ranks.step_graph import RankRows, StepGraph, StepNode

__all__ = ["step_graph"]


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
    begins, last, texts, inferred = {}, {}, {}, []
    for rank, (low, high) in bounds.items():
        if rank in clocks:
            one = RankNodes(
                rank, rows[rank], calls[rank], clocks[rank], (low, high), nodes, members
            )
            begins[rank], last[rank] = one.low, _build(one)
            if one.rows.device.any() and not one.rows.waits_recorded:
                inferred.append(rank)
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
    return StepGraph(nodes, begins, last, texts, inferred)


def _build(one: RankNodes) -> int:
    """Add the nodes of one rank; return the last one of its host."""
    timeline = host_timeline(
        np.where(one.host, one.start, 0), np.where(one.host, one.end, 0), one.thread, one.busy,
        one.main, one.low, one.high,
    )  # fmt: skip
    add_device_nodes(one)
    _add_host_collectives(one, timeline)
    return _add_host(one, timeline)


def _add_host_collectives(one: RankNodes, timeline: list[HostPiece]) -> None:
    ends = [each.end for each in timeline]
    at = np.flatnonzero(one.gloo)
    waited = one.low
    for n in at[np.argsort(one.end[at], kind="stable")].tolist():
        call = one.call_of(n)
        if call is None:
            continue
        enter, leave = int(one.start[n]), int(one.end[n])
        first = one.add_collective(call, enter, leave, -1)
        one.launched.append((first, enter))
        one.cuts.add(enter)
        place = bisect.bisect_left(ends, leave)
        if place == len(timeline) or timeline[place].busy:
            continue
        begin, piece = place, timeline[place]
        while begin >= 0 and not timeline[begin].busy:
            begin -= 1
        free = timeline[begin].end if begin >= 0 else one.low
        waits = max(free, enter, waited)
        if (enter >= free or leave - waits >= piece.end - leave) and leave > waits:
            one.waits.append((waits, leave, first + 1))
            waited = leave


def _add_host(one: RankNodes, timeline: list[HostPiece]) -> int:
    """Add the host's chain, cut and without its waits; return its last node."""
    one.waits.sort()
    edges = {one.low, *one.cuts, *(time for begin, end, _ in one.waits for time in (begin, end))}
    edges.update(each.start for each in timeline)
    cuts = sorted(time for time in edges if one.low <= time <= one.high)
    waits = _union([(begin, end) for begin, end, _ in one.waits if end > begin])
    resumed: dict[int, list[int]] = {}  # time -> what the host had waited for
    for begin, end, node in one.waits:
        span = bisect.bisect_right(waits, (begin, 1 << 62)) - 1
        inside = span >= 0 and waits[span][0] <= begin < waits[span][1]
        resumed.setdefault(waits[span][1] if inside else end, []).append(node)
    node_at: dict[int, int] = {one.low: one.add("host", "", one.low, one.low)}
    previous, piece, wait = node_at[one.low], 0, 0
    for begin, end in zip(cuts, [*cuts[1:], one.high], strict=True):
        while wait < len(waits) and waits[wait][1] <= begin:
            wait += 1
        if end <= begin or (wait < len(waits) and waits[wait][0] <= begin):
            node_at.setdefault(end, previous)  # waiting, from what the chain goes on later
            continue
        while timeline[piece].end <= begin:
            piece += 1
        at = timeline[piece].row
        name = one.names[int(one.name[at])] if at >= 0 else ""
        node = one.add("host", name, begin, end, int(one.row[at]) if at >= 0 else -1)
        one.nodes[node].before = [previous, *resumed.pop(begin, ())]
        previous = node_at[end] = node
    final = one.add("host", "", one.high, one.high)
    one.nodes[final].before = [previous, *resumed.pop(one.high, ())]
    for node, when in one.launched:
        if when in node_at:
            one.nodes[node].before.append(node_at[when])
    return final


def _union(spans: list[tuple[int, int]]) -> list[tuple[int, int]]:
    found: list[tuple[int, int]] = []
    for begin, end in sorted(spans):
        if found and begin <= found[-1][1]:
            found[-1] = (found[-1][0], max(found[-1][1], end))
        else:
            found.append((begin, end))
    return found
