# SPDX-License-Identifier: Apache-2.0
"""Chrome and Perfetto traces of any EventTable, by the native writers that sessions use."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from fastprof import _core
from fastprof.base import errors
from fastprof.exporters.atomic_file import atomic_binary
from fastprof.exporters.progress import terminal_progress
from fastprof.formats.trace_members import WRITER_MEMBERS
from fastprof.model.columns import NO_PAYLOAD
from fastprof.model.table import EventFlag, EventKind, EventTable
from fastprof.model.tree import EventTree

__all__ = [
    "write_chrome_capture",
    "write_chrome_trace",
    "write_perfetto_capture",
    "write_perfetto_trace",
]

Array: TypeAlias = NDArray[Any]
_JSON = 7  # DetailType


def write_chrome_trace(table: EventTable, path: str | os.PathLike[str]) -> None:
    """Write a table as Chrome JSON with Kineto's schema; gzip when the path ends in .gz.

    Rows may be in any order; args of rows that were read from a trace are written again, their
    ids ("External id", "Record function id", "Ev Idx") included. Rows of a table with operators
    and without ids are numbered. Raises errors.IoError when the file cannot be written.
    """
    members = {str(k): _json(v) for k, v in table.metadata.items() if k not in _OWN_MEMBERS}
    event_ids = False if table.has("external_id") else None
    write_chrome_capture(capture_of_table(table), path, members, event_ids=event_ids)


def write_perfetto_trace(table: EventTable, path: str | os.PathLike[str]) -> None:
    """Write a table in Perfetto's format; gzip when the path ends in .gz. As write_chrome_trace."""
    write_perfetto_capture(capture_of_table(table), path)


def write_chrome_capture(
    capture: _core.Capture,
    path: str | os.PathLike[str],
    members: Mapping[str, str],
    *,
    event_ids: bool | None = None,
) -> None:
    """Write a capture as Chrome JSON; gzip when the path ends in .gz.

    `members`: JSON texts by name, for the top level. event_ids: whether events carry Kineto's ids;
    None: when the capture has operators. Raises errors.IoError.
    """
    target, pairs = os.fspath(path), list(members.items())
    _write(
        target,
        lambda file, told: capture.write_chrome_trace(
            os.fsencode(file), pairs, target, told, event_ids
        ),
    )


def write_perfetto_capture(capture: _core.Capture, path: str | os.PathLike[str]) -> None:
    """Write a capture in Perfetto's format; gzip when the path ends in .gz. Raises errors.IoError."""
    _write(
        os.fspath(path), lambda file, told: capture.write_perfetto_trace(os.fsencode(file), told)
    )


def _write(target: str, write: Callable[[str, Callable[[int], object] | None], object]) -> None:
    """Let `write` write the file, or a temporary one that is packed into it; both show how far they are."""
    if not target.endswith(".gz"):
        with terminal_progress(f"writing {target}") as progress:
            write(target, _without_total(progress))
        return
    with tempfile.TemporaryDirectory(prefix="fastprof-") as folder:
        plain = os.path.join(folder, "trace")
        with terminal_progress(f"writing {target}") as progress:
            write(plain, _without_total(progress))
        total = os.path.getsize(plain)
        with (
            atomic_binary(target) as out,
            open(plain, "rb") as data,
            terminal_progress(f"packing {target}") as progress,
        ):
            while piece := data.read(1 << 20):
                out.write(piece)
                if progress is not None:
                    progress(data.tell(), total)


def _without_total(
    progress: Callable[[int, int | None], None] | None,
) -> Callable[[int], object] | None:
    """For a writer that does not know how many bytes it will be."""
    return None if progress is None else lambda done: progress(done, None)


# Members of the top level that the writer makes itself, or that load() added.
_OWN_MEMBERS = WRITER_MEMBERS | {"format", "skipped_events", "skipped_packets"}


def _json(value: Any) -> str:
    try:
        return json.dumps(value, allow_nan=False)
    except (TypeError, ValueError):
        return json.dumps(str(value))


def capture_of_table(table: EventTable, counter_names: Sequence[str] = ()) -> _core.Capture:
    """A native capture of the rows: grouped by track, in begin order, parents first.

    `counter_names`: of the perf counters in the payload of a table that a session made.
    """
    order, parent = _arrangement(table)
    site, sites = _sites(table, order)
    flags = table.column("flags")[order] & ~np.uint8(EventFlag.DETAIL)
    payload, words, strings = _payload(table, order, flags)
    end_track = table.column("end_track")[order]
    foreign = np.flatnonzero((flags & EventFlag.FOREIGN_END != 0) & (end_track >= 0))
    track = table.column("track")[order]
    tracks = list(table.tracks)
    if not tracks:
        top = int(track.max()) + 1 if len(track) else 0
        tracks = [(i, table.pid, i + 1, "", True) for i in range(top)]  # type: ignore[misc]
    return _core.capture_of(
        columns={
            "start_ns": table.start_ns[order],
            "end_ns": table.end_ns[order],
            "site": site,
            "track": track,
            "parent": parent,
            "payload": payload,
            "kind": table.column("kind")[order],
            "flags": flags,
            "payload_words": words,
            "foreign_row": foreign,
            "foreign_end_track": end_track[foreign],
        },
        sites=[tuple(s) for s in sites],
        tracks=[tuple(t) for t in tracks],
        strings=list(strings),
        t0_ns=table.t0_ns,
        t1_ns=table.t1_ns,
        clock_error_ns=table.clock_error_ns,
        pid=table.pid,
        process_name=table.process_name,
        dropped=table.dropped,
        counter_names=list(counter_names),
    )


def _arrangement(table: EventTable) -> tuple[Array, Array]:
    """(rows in the order of a capture, the parent of each by its new number)."""
    size = len(table)
    if table.begin_ordered and table.has("parent"):
        return np.arange(size), table.column("parent")
    track = table.column("track")
    order = np.lexsort((-table.end_ns, table.start_ns, track))
    tree = EventTree.of(table)
    rows = np.arange(size) if tree.rows is None else tree.rows
    above = np.full(size, -1, np.int64)
    nested = tree.parent >= 0
    above[rows[nested]] = rows[tree.parent[nested]]
    position = np.empty(size + 1, np.int64)
    position[order] = np.arange(size)
    position[size] = -1
    parent = position[above][order]
    kept = (parent >= 0) & (parent < np.arange(size))
    kept &= track[order][np.where(kept, parent, 0)] == track[order]
    return order, np.where(kept, parent, -1).astype(np.int32)


def _sites(table: EventTable, order: Array) -> tuple[Array, list[Any]]:
    """(site of each row, sites), where every site has the kind of its rows."""
    site = table.column("site")[order].astype(np.int64)
    kind = table.column("kind")[order]
    sites = list(table.sites)
    own = np.array([s.kind for s in sites], np.int64)
    differs = np.flatnonzero(own[site] != kind) if len(sites) else np.zeros(0, np.int64)
    if len(differs):
        pairs, code = np.unique(site[differs] * 16 + kind[differs], return_inverse=True)
        site[differs] = len(sites) + code.reshape(-1)
        sites += [sites[p // 16]._replace(kind=p % 16) for p in pairs.tolist()]
    return site, sites


def _payload(table: EventTable, order: Array, flags: Array) -> tuple[Array, Array, list[str]]:
    """(payload, words, strings); sets flag DETAIL. Args that a trace had become JSON blocks."""
    strings = list(table.strings)
    words = np.zeros(0, np.uint64) if table.payload_words is None else table.payload_words
    payload = table.column("payload")[order].astype(np.int64)
    if table.payload_words is None:
        payload[:] = NO_PAYLOAD
    given = payload != NO_PAYLOAD
    flags[given] |= table.column("flags")[order][given] & np.uint8(EventFlag.DETAIL)
    column = table.coded.get("metadata_json")
    if column is None:
        return payload, words, strings
    codes = column.codes[order]
    by_site = np.array([len(types) for types in table.sites.field("arg_types")], np.int64)
    simple = table.column("kind")[order] <= EventKind.MARK
    simple &= by_site[table.column("site")[order]] == 0
    rows = np.flatnonzero((codes >= 0) & ~given & simple)
    blocks = np.empty((len(rows), 3), np.uint64)
    blocks[:, 0] = 2  # DetailHeader: words that follow
    blocks[:, 1] = _JSON | 1 << 16  # DetailBlock: type and count
    blocks[:, 2] = codes[rows] + len(strings)
    payload[rows] = len(words) + 3 * np.arange(len(rows))
    flags[rows] |= np.uint8(EventFlag.DETAIL)
    strings += [str(text) for text in column.values]
    if len(words) + blocks.size >= NO_PAYLOAD:
        raise errors.ValueError("the table has more arguments than a trace can hold")
    return payload, np.concatenate([words, blocks.reshape(-1)]), strings
