# SPDX-License-Identifier: Apache-2.0
"""Write any EventTable as a Chrome or Perfetto trace, with the native writers of sessions."""

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
from fastprof.base.atomic_file import atomic_binary
from fastprof.base.native_numbers import DetailType
from fastprof.exporters.progress import terminal_progress
from fastprof.formats.trace_members import WRITER_MEMBERS
from fastprof.model.columns import NO_PAYLOAD
from fastprof.model.parents import new_numbers
from fastprof.model.table import EventFlag, EventKind, EventTable
from fastprof.model.tree import EventTree

__all__ = [
    "write_chrome_capture",
    "write_chrome_trace",
    "write_perfetto_capture",
    "write_perfetto_trace",
]

Array: TypeAlias = NDArray[Any]


def write_chrome_trace(table: EventTable, path: str | os.PathLike[str]) -> None:
    """Write a table as Chrome JSON in Kineto's schema, compressed with gzip if `path` ends in .gz.

    Rows may be in any order. Arguments of rows that were read from a trace are written again,
    including their ids ("External id", "Record function id", "Ev Idx"); rows of a table that has
    operators but no ids are numbered. Raises errors.IoError if the file cannot be written.
    """
    members = _members(table)
    event_ids = False if table.has("external_id") else None
    write_chrome_capture(capture_of_table(table), path, members, event_ids=event_ids)


def write_perfetto_trace(table: EventTable, path: str | os.PathLike[str]) -> None:
    """Write a table in Perfetto's format, compressed with gzip if `path` ends in .gz. Rows may be in any order.

    Raises errors.IoError if the file cannot be written.
    """
    write_perfetto_capture(capture_of_table(table), path, _members(table))


def write_chrome_capture(
    capture: _core.Capture,
    path: str | os.PathLike[str],
    members: Mapping[str, str],
    *,
    event_ids: bool | None = None,
    call_stacks: bool = False,
) -> None:
    """Write a capture as Chrome JSON, compressed with gzip if `path` ends in .gz.

    members: name -> JSON text, for the top level. event_ids: whether events have Kineto's ids; None:
    if the capture has operators. call_stacks: whether calls of Python functions have "Python thread" and
    "Call stack". Raises errors.IoError if the file cannot be written.
    """
    target, member_texts = os.fsdecode(path), list(members.items())
    _write(
        target,
        lambda file, progress: capture.write_chrome_trace(
            os.fsencode(file), member_texts, target, progress, event_ids, call_stacks
        ),
    )


def write_perfetto_capture(
    capture: _core.Capture, path: str | os.PathLike[str], members: Mapping[str, str]
) -> None:
    """Write a capture in Perfetto's format, compressed with gzip if `path` ends in .gz.

    members: name -> JSON text, for the metadata of the trace. Raises errors.IoError if the file cannot be written.
    """
    member_texts = list(members.items())
    _write(
        os.fsdecode(path),
        lambda file, progress: capture.write_perfetto_trace(
            os.fsencode(file), member_texts, progress
        ),
    )


def _write(target: str, write: Callable[[str, Callable[[int], object] | None], object]) -> None:
    """Call `write` with the target, or for .gz with a temporary file to compress; show progress."""
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
    """Adapt a progress function to a writer that does not know the total."""
    return None if progress is None else lambda done: progress(done, None)


# Top-level members that the writer generates itself or that load() added.
_OWN_MEMBERS = WRITER_MEMBERS | {"format", "skipped_events", "skipped_packets"}


def _members(table: EventTable) -> dict[str, str]:
    # Files have no FLOPs: this member has their reader estimate them from the shapes again.
    given = {"with_flops": 1} if table.has("flops") else {}
    metadata = {**table.metadata, **given}
    return {str(k): _json(v) for k, v in metadata.items() if k not in _OWN_MEMBERS}


def _json(value: Any) -> str:
    try:
        return json.dumps(value, allow_nan=False)
    except (TypeError, ValueError):
        return json.dumps(str(value))


def capture_of_table(table: EventTable, counter_names: Sequence[str] = ()) -> _core.Capture:
    """Return a native capture of the rows: grouped by track, in begin order, parents first.

    counter_names: names of the perf counters in the payload of a table made by a session. Raises
    errors.ValueError if the arguments of the rows are too large for a capture.
    """
    order, parent = _arrangement(table)
    site, sites = _sites(table, order)
    flags = table.column("flags")[order] & ~np.uint8(EventFlag.DETAIL)
    payload, words, strings = _payload(table, order, flags)
    end_track = table.column("end_track")[order]
    crossed = np.flatnonzero((flags & EventFlag.CROSS_THREAD_END != 0) & (end_track >= 0))
    track = table.column("track")[order]
    tracks = list(table.tracks)
    if not tracks:
        top = int(track.max()) + 1 if len(track) else 0
        tracks = [(i, table.pid, i + 1, "", True, -1) for i in range(top)]  # type: ignore[misc]
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
            **({"call_line": table.column("call_line")[order]} if table.has("call_line") else {}),
            "payload_words": words,
            "cross_thread_end_row": crossed,
            "cross_thread_end_track": end_track[crossed],
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
        process_names=_process_names(table),
    )


def _process_names(table: EventTable) -> dict[int, str]:
    """Return process names by pid, from the metadata of a profile with follow_children."""
    processes = table.metadata.get("processes")
    if not isinstance(processes, list):  # the metadata of a file may contain any value here
        return {}
    known = [each for each in processes if isinstance(each, dict)]
    return {
        each["pid"]: each["name"]
        for each in known
        if isinstance(each.get("pid"), int) and isinstance(each.get("name"), str)
    }


def _arrangement(table: EventTable) -> tuple[Array, Array]:
    """Return (rows in a capture's order, the parent of each in that numbering)."""
    size = len(table)
    if table.begin_ordered and table.has("parent"):
        return np.arange(size), table.column("parent")
    track = table.column("track")
    order = np.lexsort((-table.end_ns, table.start_ns, track))
    above = EventTree.of(table).parent_rows()
    parent = new_numbers(order, size)[above[order]]
    kept = (parent >= 0) & (parent < np.arange(size))
    kept &= track[order][np.where(kept, parent, 0)] == track[order]
    return order, np.where(kept, parent, -1).astype(np.int32)


def _sites(table: EventTable, order: Array) -> tuple[Array, list[Any]]:
    """Return (site of each row, sites); a site with rows of another kind is duplicated for that kind."""
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
    """Return (payload, words, strings); arguments read from a trace become JSON blocks (flag DETAIL)."""
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
    blocks[:, 0] = 2  # DetailHeader: number of words that follow
    blocks[:, 1] = DetailType.JSON | 1 << 16  # DetailBlock: type, and count in the upper bits
    blocks[:, 2] = codes[rows] + len(strings)
    payload[rows] = len(words) + 3 * np.arange(len(rows))
    flags[rows] |= np.uint8(EventFlag.DETAIL)
    strings += [str(text) for text in column.values]
    if len(words) + blocks.size >= NO_PAYLOAD:
        raise errors.ValueError(
            f"the arguments of the table exceed {NO_PAYLOAD} words. Export a part of it: table[begin:end]."
        )
    return payload, np.concatenate([words, blocks.reshape(-1)]), strings
