# SPDX-License-Identifier: Apache-2.0
"""merge_tables: the traces of several processes on one timeline."""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from fastprof.base import errors
from fastprof.base.device_type import DeviceType
from fastprof.model.columns import NO_PAYLOAD
from fastprof.model.join import join_tables
from fastprof.model.table import CodedColumn, EventTable, KernelTable

__all__ = ["merge_tables"]

Array: TypeAlias = NDArray[Any]

# Times below this (March 1973, in Unix ns) count from another origin, such as the start of the machine.
_FIRST_WALL_TIME_NS = 100_000_000_000_000_000
# Columns of numbers that mean something within one process, by what they number: the least number that is used, and
# the names of the columns with those of the events' args.
_NUMBERED: tuple[tuple[int, dict[str, str]], ...] = (
    (0, {"sequence_nr": "Sequence number"}),
    (1, {"record_function_id": "Record function id"}),
    (0, {"python_id": "Python id", "python_parent_id": "Python parent id"}),
    (0, {"python_module_id": "Python module id"}),
    (1, {"flow_id": ""}),
)
_NUMBER = re.compile(
    r'"(External id|device|Sequence number|Fwd thread id|Record function id|Python id|Python parent id|'
    r'Python module id)": (\d+)'
)


def merge_tables(tables: Sequence[EventTable], names: Sequence[str] = ()) -> EventTable:
    """Return the rows of all tables on one timeline, in the given order, with the processes of each apart.

    tables: of different processes, as load() returns them from Chrome and Perfetto traces. names: of their files.
    Tables without rows are left out.

    Times are Unix times: they agree as well as the clocks of the machines do. A table whose times are no Unix times is
    shifted so that it begins with the first other table. A pid, device or "External id" that an earlier table has
    is replaced by an unused number. metadata["processes"] has pid and name of each process, and metadata["merged"], by
    table, its file, what was added to its times (shift_ns), the bound of its clock's error (clock_error_ns, 0:
    unknown), its pids before and after, and its own metadata.

    Rows are copied. Raises errors.ValueError for no tables, and for those whose arguments are texts of a recording.
    Any thread.
    """
    if not tables:
        raise errors.ValueError("no tables to merge. Pass at least one table.")
    if any(len(table.strings) for table in tables):
        raise errors.ValueError(
            "a table of a recording cannot be merged. Write it as a Chrome trace, and load that."
        )
    named = zip(tables, itertools.chain(names, itertools.repeat("")), strict=False)
    kept = [(table, name) for table, name in named if len(table)]
    if not kept:
        return tables[0]
    wall = [t.t0_ns for t, _ in kept if t.t0_ns >= _FIRST_WALL_TIME_NS]
    merge = _Merge()
    parts = []
    for table, name in kept:
        has_wall_time = not wall or table.t0_ns >= _FIRST_WALL_TIME_NS
        parts.append(merge.part(table, name, 0 if has_wall_time else min(wall) - table.t0_ns))
    joined = join_tables(parts)
    words = [t.payload_words for t in parts if t.payload_words is not None]
    return EventTable(
        joined.to_dict() | ({"payload": _payload(parts)} if words else {}),
        sites=joined.sites,
        tracks=joined.tracks,
        coded=joined.coded,
        kernels=_kernels(parts),
        payload_words=np.concatenate(words) if words else None,
        t0_ns=min(t.t0_ns for t in parts),
        t1_ns=max(t.t1_ns for t in parts),
        clock_error_ns=joined.clock_error_ns,
        pid=parts[0].pid,
        process_name=next((p["name"] for p in merge.processes if p["pid"] == parts[0].pid), ""),
        dropped=joined.dropped,
        metadata={
            "format": "merged",
            "processes": merge.processes,
            "merged": merge.merged,
            **_sums(parts),
        },
    )


class _Merge:
    """Numbers that the tables so far have, and the descriptions of the result."""

    def __init__(self) -> None:
        self.processes: list[dict[str, Any]] = []
        self.merged: list[dict[str, Any]] = []
        self._pids: set[int] = set()
        self._track_id = 0
        self._external = 0
        self._devices: set[int] = set()
        self._next: dict[str, int] = {}  # by column of _NUMBERED

    def part(self, table: EventTable, file: str, shift_ns: int) -> EventTable:
        """Return a table with the times and numbers that it has in the result."""
        pids = self._new_pids({track.pid for track in table.tracks} | {table.pid})
        first_id = self._track_id
        tracks = [
            track._replace(
                id=track.id + first_id,
                pid=pids[track.pid],
                thread_id=track.thread_id + first_id if track.thread_id >= 0 else -1,
            )
            for track in table.tracks
        ]
        self._track_id += max((track.id for track in table.tracks), default=0) + 1
        columns: dict[str, Any] = {name: table.column(name) for name in table.to_dict()}
        columns["start_ns"] = table.start_ns + shift_ns
        columns["end_ns"] = table.end_ns + shift_ns
        coded = dict(table.coded)
        sites, kernels = list(table.sites), table.kernels
        for name in ("external_id", "linked_correlation_id"):
            if table.has(name):
                ids = table.column(name)
                columns[name] = np.where(ids > 0, ids + self._external, ids)
        added = self._renumber(columns, first_id)
        on_device = table.column("device_type") != DeviceType.CPU
        device = self._new_device(table, on_device)
        if table.has("device_resource_id"):
            resource = table.column("device_resource_id")
            columns["device_resource_id"] = np.where(on_device, resource, resource + first_id)
        if table.has("device_index"):
            index = table.column("device_index")
            columns["device_index"] = np.where(on_device, index + device, index)
            sites = [
                site._replace(device_index=site.device_index + device)
                if site.device_type > DeviceType.CPU
                else site
                for site in sites
            ]
        added["External id"] = (0, self._external)
        if on_device.any():
            added["device"] = (0, device)
        if "metadata_json" in coded and any(number for _, number in added.values()):
            coded["metadata_json"] = _renumbered(coded["metadata_json"], added)
        if kernels is not None:
            kernels = KernelTable(
                kernels.row,
                kernels.name,
                kernels.device + np.int32(device),
                kernels.duration_ns,
                kernels.names,
            )
        self._describe(table, file, shift_ns, pids)
        if table.has("external_id") or table.has("linked_correlation_id"):
            self._external += int(
                max(table.column(n).max() for n in ("external_id", "linked_correlation_id"))
            )
        return table.replaced(
            columns,
            sites=sites,
            tracks=tracks,
            coded=coded,
            kernels=kernels,
            strings=(),
            t0_ns=table.t0_ns + shift_ns,
            t1_ns=table.t1_ns + shift_ns,
            pid=pids[table.pid],
            begin_ordered=False,
        )

    def _renumber(self, columns: dict[str, Any], first_id: int) -> dict[str, tuple[int, int]]:
        """Replace numbers that an earlier table has, so that calls, ops and arrows stay those of their process.

        Returns, by the name of an arg, the least number to replace and what is added to it.
        """
        added: dict[str, tuple[int, int]] = {"Fwd thread id": (1, first_id)}
        for least, names in _NUMBERED:
            present = [name for name in names if name in columns]
            number = max((self._next.get(name, 0) for name in names), default=0)
            last = -1
            for name in present:
                ids = columns[name]
                columns[name] = np.where(ids >= least, ids + number, ids)
                added[names[name]] = (least, number)
                last = max(last, int(columns[name].max(initial=-1)))
            for name in names:
                self._next[name] = max(number, last + 1)
        if "fwd_thread" in columns:  # id of a track
            threads = columns["fwd_thread"]
            columns["fwd_thread"] = np.where(threads > 0, threads + first_id, threads)
        return added

    def _new_pids(self, pids: set[int]) -> dict[int, int]:
        unused = (n for n in itertools.count(1) if n not in self._pids and n not in pids)
        found = {pid: next(unused) if pid in self._pids else pid for pid in sorted(pids)}
        self._pids |= set(found.values())
        return found

    def _new_device(self, table: EventTable, on_device: Array) -> int:
        """Return what is added to a table's device numbers: 0 if no other table has one of them."""
        own = set(table.column("device_index")[on_device].tolist())
        own |= {site.device_index for site in table.sites if site.device_type > DeviceType.CPU}
        if table.kernels is not None:
            own |= set(table.kernels.device.tolist())
        added = max(self._devices) + 1 - min(own) if own & self._devices else 0
        self._devices |= {number + added for number in own}
        return added

    def _describe(self, table: EventTable, file: str, shift_ns: int, pids: dict[int, int]) -> None:
        described = table.metadata.get("processes")
        names = {table.pid: table.process_name or file}
        for each in described if isinstance(described, list) else ():
            if isinstance(each, dict) and each.get("pid") in pids and each.get("name"):
                names[each["pid"]] = str(each["name"])
        ranks = table.metadata.get("distributedInfo")
        rank = ranks.get("rank") if isinstance(ranks, dict) else None
        prefix = f"rank {rank}: " if isinstance(rank, int) else ""
        self.processes += [
            {"pid": pids[pid], "name": prefix + name} for pid, name in names.items() if name
        ]
        self.merged.append(
            {
                "file": file,
                "shift_ns": shift_ns,
                "clock_error_ns": table.clock_error_ns,
                "pids": {str(old): new for old, new in pids.items()},
                "metadata": table.metadata,
            }
        )


def _renumbered(column: CodedColumn, added: dict[str, tuple[int, int]]) -> CodedColumn:
    """Return texts of args with what `added` says: by name, the least number to replace and what is added to it."""

    def replaced(found: re.Match[str]) -> str:
        least, number = added.get(found[1], (0, 0))
        value = int(found[2])
        return f'"{found[1]}": {value + number if value >= least else value}'

    texts = (_NUMBER.sub(replaced, str(value)) for value in column.values)
    return CodedColumn(column.codes, tuple(texts))


def _payload(parts: Sequence[EventTable]) -> Array:
    columns, size = [], 0
    for table in parts:
        payload = table.column("payload").astype(np.int64)
        columns.append(np.where(payload == NO_PAYLOAD, NO_PAYLOAD, payload + size))
        size += 0 if table.payload_words is None else len(table.payload_words)
    if size >= NO_PAYLOAD:
        raise errors.ValueError(f"the arguments exceed {NO_PAYLOAD} words. Merge fewer traces.")
    return np.concatenate(columns)


def _kernels(parts: Sequence[EventTable]) -> KernelTable | None:
    found: list[tuple[Array, Array, Array, Array]] = []
    names: list[str] = []
    row = 0
    for table in parts:
        if (k := table.kernels) is not None:
            found.append((k.row + row, k.name + len(names), k.device, k.duration_ns))
            names += k.names
        row += len(table)
    if not found:
        return None
    rows, codes, devices, durations = (np.concatenate(each) for each in zip(*found, strict=True))
    return KernelTable(rows, codes.astype(np.int32), devices, durations, names)


def _sums(parts: Sequence[EventTable]) -> dict[str, dict[str, int]]:
    """Return the counts of what was not read, over all tables."""
    sums: dict[str, dict[str, int]] = {}
    for name in ("skipped_events", "skipped_packets"):
        for table in parts:
            counts = table.metadata.get(name)
            for what, count in counts.items() if isinstance(counts, dict) else ():
                of_name = sums.setdefault(name, {})
                of_name[what] = of_name.get(what, 0) + count
    return sums
