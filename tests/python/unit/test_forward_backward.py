# SPDX-License-Identifier: Apache-2.0
"""Links from forward ops to backward functions, against the rule followed event by event."""

from __future__ import annotations

import random

from fastprof.model.sites import Site
from fastprof.model.table import EventTable
from fastprof.views.forward_backward import forward_backward_flows

SITES = (Site("op", scope=0), Site("backward", scope=1))


def table_of(rows: list[tuple[int, int, int, int]]) -> EventTable:
    """Rows of (start, thread, sequence number, forward thread or 0)."""
    return EventTable(
        {
            "start_ns": [r[0] for r in rows],
            "end_ns": [r[0] + 1 for r in rows],
            "track": [r[1] for r in rows],
            "sequence_nr": [r[2] for r in rows],
            "fwd_thread": [r[3] or -1 for r in rows],
            "site": [1 if r[3] else 0 for r in rows],
        },
        sites=SITES,
    )


def followed(rows: list[tuple[int, int, int, int]]) -> tuple[list[int], list[bool]]:
    ids, starts = [0] * len(rows), [False] * len(rows)
    made: dict[tuple[int, int], int] = {}
    count = 0
    for row in sorted(range(len(rows)), key=lambda i: (rows[i][0], i)):
        _, thread, sequence, forward = rows[row]
        if sequence < 0:
            continue
        if not forward:
            made[thread, sequence] = row
        elif (first := made.pop((forward, sequence), None)) is not None:
            count += 1
            ids[first] = ids[row] = count
            starts[first] = True
    return ids, starts


def test_as_the_rule_says() -> None:
    chance = random.Random(5)
    linked = 0
    for _ in range(200):
        rows = [
            (
                chance.randrange(40),
                chance.choice((1, 2)),
                chance.choice((-1, 0, 1, 2)),
                chance.choice((0, 0, 1, 2)),
            )
            for _ in range(chance.randrange(30))
        ]
        rows.sort(key=lambda r: r[0])
        ids, starts = followed(rows)
        flows = forward_backward_flows(table_of(rows)) if rows else None
        if flows is None:
            assert not any(ids)
        else:
            linked += int(flows.start.sum())
            assert (flows.id.tolist(), flows.start.tolist()) == (ids, starts)
    assert linked > 200


def test_without_numbers_there_are_none() -> None:
    assert (
        forward_backward_flows(
            EventTable({"start_ns": [1], "end_ns": [2], "site": [0]}, sites=SITES)
        )
        is None
    )
