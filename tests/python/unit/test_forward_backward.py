# SPDX-License-Identifier: Apache-2.0
"""Links from forward ops to backward functions, compared with a loop that applies the rule event by event."""

from __future__ import annotations

import json
import random
from pathlib import Path

import numpy as np
from plain_captures import capture_of

import fastprof
from fastprof import _core
from fastprof.base.native_numbers import DetailType
from fastprof.base.record_scope import RecordScope
from fastprof.decode.consolidate import table_of as table_of_capture
from fastprof.exporters.trace_writers import write_chrome_capture
from fastprof.model.columns import NO_PAYLOAD, EventFlag
from fastprof.model.sites import Site
from fastprof.model.table import EventTable
from fastprof.views.forward_backward import forward_backward_flows

SITES = (
    Site("op", scope=RecordScope.FUNCTION),
    Site("backward", scope=RecordScope.BACKWARD_FUNCTION),
)


def table_of(rows: list[tuple[int, int, int, int]]) -> EventTable:
    """Return a table of rows (start, thread, sequence number, forward thread or 0)."""
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


def recorded(rows: list[tuple[int, int, int, int]]) -> _core.Capture:
    """Record the same rows in a session, on a thread each; the name of a row is its number."""
    sites, payload, words = [], [], []
    for number, (_, _, sequence, forward) in enumerate(rows):
        scope = RecordScope.BACKWARD_FUNCTION if forward else RecordScope.FUNCTION
        sites.append(Site(str(number), category="cpu_op", scope=int(scope)))
        payload.append(NO_PAYLOAD if sequence < 0 and not forward else len(words))
        if payload[-1] != NO_PAYLOAD:
            words += [4, DetailType.OP | 3 << 16, sequence & 2**64 - 1, forward, 0]
    given = np.array(payload) != NO_PAYLOAD
    return capture_of(
        sites,
        payload,
        words,
        start_ns=np.array([row[0] for row in rows]) * 10,
        site=np.arange(len(rows)),
        track=np.array([row[1] for row in rows]) - 1,
        flags=np.where(given, int(EventFlag.DETAIL), 0) | int(EventFlag.FINISHED),
    )


def arrows_of(capture: _core.Capture, path: Path, size: int) -> tuple[list[int], list[bool]]:
    """Return the arrows in the trace of the C++ writer, as pairs of rows."""
    write_chrome_capture(capture, path, {})
    events = json.loads(path.read_text())["traceEvents"]
    row_at = {(e["tid"], e["ts"]): int(e["name"]) for e in events if e["ph"] == "X"}
    ids, starts = [0] * size, [False] * size
    for event in events:
        if event.get("cat") == "fwdbwd":
            row = row_at[event["tid"], event["ts"]]
            ids[row] = event["id"]
            starts[row] = event["ph"] == "s"
    return ids, starts


def test_tables_and_traces_have_the_same_arrows(tmp_path: Path) -> None:
    chance = random.Random(6)
    linked = 0
    for _ in range(60):
        size = chance.randrange(1, 40)
        rows = sorted(
            (
                (
                    start,
                    chance.choice((1, 2)),
                    chance.choice((-1, 0, 1, 2)),
                    chance.choice((0, 0, 1, 2)),
                )
                for start in chance.sample(range(100), size)
            ),
            key=lambda row: (row[1], row[0]),
        )
        capture = recorded(rows)
        flows = forward_backward_flows(table_of_capture(capture))
        arrows = arrows_of(capture, tmp_path / "trace.json", size)
        assert arrows == (followed(rows))
        if flows is None:
            assert not any(arrows[0])
        else:
            assert (flows.id.tolist(), flows.start.tolist()) == arrows
            linked += int(flows.start.sum())
    assert linked > 60


def test_loaded_traces_name_the_thread_of_the_forward_op(tmp_path: Path) -> None:
    """Threads 11 and 12 do the same, 13 more; the file has the recorder's numbers 6, 9 and 5 for them."""
    events = []
    for number, tid, ops in ((5, 13, 8), (6, 11, 3), (9, 12, 3)):
        for n in range(ops):
            where = {"pid": 1, "ph": "X", "cat": "cpu_op", "dur": 1}
            op = {"name": f"op {tid}", "tid": tid, "ts": 10 * n + number}
            back = {"name": f"of {tid}", "tid": 14, "ts": 1000 - 10 * n - number}
            more = {"Fwd thread id": number}
            events += [
                where | op | {"args": {"Sequence number": n}},
                where | back | {"args": {"Sequence number": n} | more},
            ]
    (tmp_path / "t.json").write_text(json.dumps({"traceEvents": events}))
    table = fastprof.load(tmp_path / "t.json")
    table.export(tmp_path / "t.pftrace")
    for each in (table, fastprof.load(tmp_path / "t.pftrace")):
        tid_of = {track.id: track.tid for track in each.tracks}
        backward = each.column("fwd_thread") > 0
        named = [int(each.name(row).split()[1]) for row in np.flatnonzero(backward)]
        assert [tid_of[i] for i in each.column("fwd_thread")[backward].tolist()] == named
        assert len(named) == 14 and 0 not in tid_of
    flows = forward_backward_flows(table)
    assert flows is not None and flows.start.sum() == 14
