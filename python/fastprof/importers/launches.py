# SPDX-License-Identifier: Apache-2.0
"""Tables of host ranges, calls of the CUDA runtime and device work, linked by correlation id."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from fastprof.base import errors
from fastprof.base.device_type import DeviceType
from fastprof.importers.distinct import distinct_rows, distinct_values
from fastprof.model.columns import NO_PARENT
from fastprof.model.sites import SiteTable, Track
from fastprof.model.table import CodedColumn, EventKind, EventTable, KernelTable
from fastprof.model.tree import EventTree

__all__ = ["DeviceWork", "HostRows", "NameCodes", "calls_of", "launch_table"]

Array: TypeAlias = NDArray[Any]


class HostRows(NamedTuple):
    """Rows of threads, all of one category and kind. Arrays are int64 of equal length.

    name: index into `names`. correlation: id shared by a call of the runtime and its work; 0: none.
    """

    category: str
    start_ns: Array
    end_ns: Array
    name: Array
    names: Sequence[str]
    pid: Array
    tid: Array
    correlation: Array
    kind: int = int(EventKind.RANGE)


class DeviceWork(NamedTuple):
    """Work of devices, all of one category.

    pid: the process that launched it. args: JSON text of each row.
    """

    category: str
    start_ns: Array
    end_ns: Array
    name: Array
    names: Sequence[str]
    pid: Array
    device: Array
    stream: Array
    correlation: Array
    args: CodedColumn | None = None


class NameCodes:
    """Codes of distinct names: texts that a file has numbered, and other texts."""

    def __init__(self, numbered: Mapping[int, str]) -> None:
        """numbered: the file's texts by number. A number without a text is named "string N"."""
        self.texts: list[str] = []
        self._numbered = numbered
        self._index: dict[str, int] = {}

    def code(self, text: str) -> int:
        """Return the index of a text among `texts`."""
        index = self._index.setdefault(text, len(self.texts))
        if index == len(self.texts):
            self.texts.append(text)
        return index

    def codes(self, numbers: Array) -> Array:
        """Return the indices of numbered texts."""
        distinct, codes = distinct_values(numbers)
        indices = [self.code(self._numbered.get(n) or f"string {n}") for n in distinct.tolist()]
        found: Array = np.array(indices, np.int64)[codes]
        return found


def calls_of(call_correlation: Array, call_pid: Array, correlation: Array, pid: Array) -> Array:
    """Return for each (correlation, pid) the index of the call that has both, the last of several; -1 for none."""
    if not len(call_correlation):
        return np.full(len(correlation), -1, np.int64)
    order = (
        np.lexsort((call_correlation, call_pid))
        if bool((call_pid != call_pid[0]).any())
        else (np.argsort(call_correlation, kind="stable"))
    )
    numbers, pids = call_correlation[order], call_pid[order]
    found = np.full(len(correlation), -1, np.int64)
    for process in distinct_values(pids)[0].tolist():
        first, last = np.searchsorted(pids, (process, process + 1)).tolist()
        own = np.flatnonzero(pid == process)
        at = first + np.searchsorted(numbers[first:last], correlation[own], "right") - 1
        hit = (at >= first) & (numbers[np.maximum(at, 0)] == correlation[own])
        found[own[hit]] = order[at[hit]]
    found[correlation == 0] = -1
    return found


def launch_table(host: Sequence[HostRows], work: Sequence[DeviceWork], **facts: Any) -> EventTable:
    """Return the table of host rows and device work. facts: other arguments of EventTable.

    Work is linked to the innermost range around the call that launched it, or to the call itself if no range
    encloses it: by external_id and linked_correlation_id, and as kernels of that row. Raises errors.FormatError
    for rows that end before they begin.
    """
    times = [(r.category, r.start_ns, r.end_ns) for r in host]
    times += [(w.category, w.start_ns, w.end_ns) for w in work]
    for category, start, end in times:
        if bool((end < start).any()):
            raise errors.FormatError(f"a row of category {category!r} ends before it begins")
    sites = _Sites()
    tracks: list[Track] = []
    site, track, kind = [], [], []
    track_of: dict[tuple[int, int, bool], int] = {}

    def tracks_of(first: Array, second: Array, is_device: bool) -> Array:
        pairs, codes = distinct_rows([first, second])
        numbers = []
        for pid, tid in pairs.tolist():
            index = track_of.setdefault((pid, tid, is_device), len(tracks))
            if index == len(tracks):
                tracks.append(Track(index, pid, tid, f"stream {tid}" if is_device else ""))
            numbers.append(index)
        found: Array = np.array(numbers, np.int64)[codes]
        return found

    for rows in host:
        site.append(sites.of(rows.name, rows.names, rows.category, rows.kind))
        track.append(tracks_of(rows.pid, rows.tid, False))
        kind.append(np.full(len(rows.start_ns), rows.kind, np.uint8))
    for each in work:
        site.append(sites.of(each.name, each.names, each.category, 0, each.device))
        track.append(tracks_of(each.device, each.stream, True))
        kind.append(np.zeros(len(each.start_ns), np.uint8))
    columns: dict[str, Any] = {
        "start_ns": _joined([*(r.start_ns for r in host), *(w.start_ns for w in work)]),
        "end_ns": _joined([*(r.end_ns for r in host), *(w.end_ns for w in work)]),
        "site": _joined(site),
        "track": _joined(track),
    }
    kinds = _joined(kind)
    if bool((kinds != EventKind.RANGE).any()):
        columns["kind"] = kinds
    host_size = sum(len(rows.start_ns) for rows in host)
    size = len(columns["start_ns"])
    coded = _args(work, host_size, size)
    table = EventTable(columns, sites=sites.table(), tracks=tracks, coded=coded, **facts)
    return _linked(table, host, work, host_size) if size > host_size else table


class _Sites:
    """Sites by name, category, kind and device."""

    def __init__(self) -> None:
        self._of: dict[tuple[str, str, int, int], int] = {}

    def of(
        self,
        name: Array,
        names: Sequence[str],
        category: str,
        kind: int,
        device: Array | None = None,
    ) -> Array:
        distinct, codes = distinct_rows([name] if device is None else [name, device])
        numbers = [
            self._of.setdefault((names[k], category, kind, *(number or [-1])), len(self._of))
            for k, *number in distinct.tolist()
        ]
        found: Array = np.array(numbers, np.int64)[codes]
        return found

    def table(self) -> SiteTable:
        rows = list(self._of)
        return SiteTable(
            [row[0] for row in rows],
            category=[row[1] for row in rows],
            kind=[row[2] for row in rows],
            device_type=[int(DeviceType.CUDA) if row[3] >= 0 else -1 for row in rows],
            device_index=[row[3] for row in rows],
        )


def _joined(parts: Sequence[Array]) -> Array:
    return np.concatenate(parts) if parts else np.zeros(0, np.int64)


def _args(work: Sequence[DeviceWork], first: int, size: int) -> dict[str, CodedColumn]:
    if not any(each.args is not None for each in work):
        return {}
    codes, values = np.full(size, -1, np.int32), list[Any]()
    for each in work:
        end = first + len(each.start_ns)
        if each.args is not None:
            own = each.args.codes
            codes[first:end] = np.where(own >= 0, own + len(values), -1)
            values += each.args.values
        first = end
    return {"metadata_json": CodedColumn(codes, tuple(values))}


def _linked(
    table: EventTable, host: Sequence[HostRows], work: Sequence[DeviceWork], host_size: int
) -> EventTable:
    """Return the table with device columns, links and kernels."""
    size = len(table)
    correlation = _joined([rows.correlation for rows in host])
    calls = np.flatnonzero(correlation != 0)
    call = calls_of(
        correlation[calls],
        _joined([rows.pid for rows in host])[calls],
        _joined([each.correlation for each in work]),
        _joined([each.pid for each in work]),
    )
    parent = EventTree.of(table).parent_rows()
    launching_of_call = np.where(parent[calls] == NO_PARENT, calls, parent[calls])
    launching = np.full(len(call), -1, np.int64)
    launching[call >= 0] = launching_of_call[call[call >= 0]]
    device = _joined([each.device for each in work])
    columns: dict[str, Any] = {
        "device_type": np.zeros(size, np.int16),
        "device_index": np.zeros(size, np.int32),
        "device_resource_id": np.asarray(table.thread, np.int64).copy(),
        "external_id": np.arange(1, size + 1, dtype=np.int64),
        "linked_correlation_id": np.zeros(size, np.int64),
    }
    columns["device_type"][host_size:] = int(DeviceType.CUDA)
    columns["device_index"][host_size:] = device
    columns["device_resource_id"][host_size:] = _joined([each.stream for each in work])
    columns["external_id"][host_size:] = 0
    columns["linked_correlation_id"][host_size:] = launching + 1
    linked = np.flatnonzero(launching >= 0)
    rows = host_size + linked
    kernels = KernelTable.sorted(
        launching[linked],
        table.name_id[rows].astype(np.int32),
        device[linked].astype(np.int32),
        table.duration_ns[rows],
        table.names,
    )
    return table.with_columns(columns, kernels=kernels if len(linked) else None)
