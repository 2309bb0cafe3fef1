# SPDX-License-Identifier: Apache-2.0
"""Tracks of a Perfetto trace and their descriptors: threads, processes, counters, others.

Each Perfetto track that has rows becomes a track of the table. Names, process and thread ids are set
at the end, because a descriptor may follow the events of its track.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from fastprof.formats.trace_members import EXTRA_LANE
from fastprof.importers.chrome_ids import described_processes
from fastprof.importers.perfetto_fields import Counter, Process, Thread, TrackDescriptor
from fastprof.importers.perfetto_sequence import Sequence
from fastprof.importers.protobuf import by_number, message, signed, text, whole
from fastprof.importers.table_builder import TableBuilder

if TYPE_CHECKING:
    from fastprof.importers.perfetto_native import NativeState

__all__ = ["Descriptor", "Tracks"]

_MOST_ANCESTORS = 64
_CMDLINE = frozenset({Process.CMDLINE})
_COUNTER_NAMES = {1: "thread_time", 2: "thread_instruction_count"}  # CounterDescriptor.BuiltinType


@dataclass
class Descriptor:
    """The known properties of a track."""

    name: str = ""
    parent: int = 0
    pid: int | None = None
    tid: int = 0
    is_thread: bool = False
    is_process: bool = False
    is_counter: bool = False
    unit_multiplier: int = 1
    is_incremental: bool = False
    value: float = 0  # running total of an incremental counter


class Tracks:
    """Track descriptors by uuid, and the tracks of the table that have rows."""

    def __init__(self, rows: TableBuilder, shared: NativeState) -> None:
        """shared: the state of the native scanner, which receives tracks and counters."""
        self.rows = rows
        self._shared = shared
        self.known: dict[int, Descriptor] = {}
        self.process_names: dict[int, str] = {}
        self.thread_names: dict[tuple[int, int], str] = {}
        self._incremental: dict[int, dict[int, Descriptor]] = {}  # by sequence
        self._index_of: dict[int, int] = {}
        self._first_event: dict[int, str] = {}
        self._threads: dict[tuple[int, int], int] = {}  # (pid, tid) -> index

    def __len__(self) -> int:
        """Return the number of entries, for estimates of memory."""
        names = len(self.process_names) + len(self.thread_names) + len(self._threads)
        return len(self.known) + 2 * len(self._index_of) + names

    # ---- descriptors ---------------------------------------------------------------------------

    def describe(self, sequence: Sequence, data: bytes) -> None:
        """Apply a TrackDescriptor."""
        entry = by_number(data)
        track = self.known.setdefault(whole(entry.get(TrackDescriptor.UUID, 0)), Descriptor())
        for number in (
            TrackDescriptor.NAME,
            TrackDescriptor.STATIC_NAME,
            TrackDescriptor.ATRACE_NAME,
        ):
            track.name = text(entry.get(number, b"")) or track.name
        track.parent = whole(entry.get(TrackDescriptor.PARENT_UUID, 0))
        if TrackDescriptor.THREAD in entry:
            thread = by_number(message(entry[TrackDescriptor.THREAD]))
            track.pid, track.tid = _thread(thread)
            track.name = text(thread.get(Thread.THREAD_NAME, b"")) or track.name
            track.is_thread = True
            if sequence.is_valid:
                sequence.set_thread(thread)
        elif TrackDescriptor.PROCESS in entry:
            track.pid, name = _process(message(entry[TrackDescriptor.PROCESS]))
            track.name = name or track.name
            track.is_process = True
        elif TrackDescriptor.COUNTER in entry:
            counter = by_number(message(entry[TrackDescriptor.COUNTER]))
            track.name = track.name or _COUNTER_NAMES.get(counter.get(Counter.TYPE, 0), "")
            track.unit_multiplier = signed(counter.get(Counter.UNIT_MULTIPLIER, 0)) or 1
            track.is_incremental = bool(counter.get(Counter.IS_INCREMENTAL, 0))
            track.is_counter = True
            if track.is_incremental:
                self._incremental.setdefault(sequence.id, {})[id(track)] = track
        self._share(whole(entry.get(TrackDescriptor.UUID, 0)))

    def _share(self, uuid: int) -> None:
        if uuid in self._index_of:
            self._shared.set_track(uuid, self._index_of[uuid], self.known.get(uuid))

    def describe_process(self, data: bytes) -> None:
        """Apply a ProcessDescriptor packet of an older trace."""
        pid, name = _process(data)
        if name or pid not in self.process_names:
            self.process_names[pid] = name

    def describe_thread(self, sequence: Sequence, data: bytes) -> None:
        """Apply a ThreadDescriptor packet of an older trace."""
        entry = by_number(data)
        sequence.set_thread(entry)
        name = text(entry.get(Thread.THREAD_NAME, b""))
        if name:
            self.thread_names[_thread(entry)] = name

    def reset_counters(self, sequence_id: int) -> None:
        """Reset the incremental counters of a sequence to 0."""
        for track in self._incremental.get(sequence_id, {}).values():
            track.value = 0

    # ---- tracks of the table -------------------------------------------------------------------

    def index(self, uuid: int, event_name: str = "") -> int:
        """Return the table's track of a Perfetto track; create it if new."""
        index = self._index_of.get(uuid)
        if index is None:
            index = self._index_of[uuid] = self.rows.track_of(("uuid", uuid), 0, 0)
            self._first_event[uuid] = event_name
            self._share(uuid)
        return index

    def place(self, pid: int, tid: int) -> int | None:
        """Return the table's track of events without a uuid; None if it has no rows so far."""
        return self._threads.get((pid, tid)) if tid else self._index_of.get(0)

    def thread(self, pid: int, tid: int) -> int:
        """Return the table's track of a thread without a uuid; create it if new."""
        index = self._threads.get((pid, tid))
        if index is None:
            index = self._threads[pid, tid] = self.rows.track_of(("thread", pid, tid), pid, tid)
        return index

    def name_rows(self, join_lanes: bool) -> dict[int, int]:
        """Set names and ids of the table's tracks, remove unused ones; return old -> new index.

        join_lanes: the trace is fastprof's own, which writes ranges that do not nest onto tracks
        below that of their thread or task, and tasks below their thread: move such ranges back.
        """
        moved: dict[int, int] = {}
        of_thread: dict[int, int] = {}  # track of a task -> track of its thread
        described = list(self._index_of) if join_lanes else []
        for uuid in described:
            index, target = self._index_of[uuid], self._lane_of(uuid)
            if target is not None:
                if target not in self._index_of:
                    described.append(target)
                moved[index] = self.index(target)
            parent = self.known.get(uuid, Descriptor()).parent
            if target is None and self.known.get(parent, Descriptor()).is_thread:
                of_thread[index] = self.index(parent)
        for uuid, index in self._index_of.items():
            track = self.known.get(uuid, Descriptor())
            above = self._ancestors(uuid)
            thread = next((known for known in above if known.is_thread), None)
            owner = thread or next((known for known in above if known.pid is not None), None)
            pid = (owner.pid if owner is not None else 0) or 0
            name = track.name
            if track.is_thread or track.is_process:
                name = name or self._name_of_packet(track)
            elif not name and not track.is_counter:
                name = self._first_event[uuid] or ("Default Track" if uuid == 0 else "")
            tid = thread.tid if thread is not None else 0
            self.rows.tracks[index] = self.rows.tracks[index]._replace(pid=pid, tid=tid, name=name)
        for key, index in self._threads.items():
            self.rows.name_track(index, self.thread_names.get(key, ""))
        used = {moved.get(index, index) for index in set(self.rows.track)}
        used |= {of_thread[index] for index in used if index in of_thread}
        number = {index: number for number, index in enumerate(sorted(used))}
        for index, thread_index in of_thread.items():
            if index in number:
                self.rows.tracks[index] = self.rows.tracks[index]._replace(
                    thread_id=number[thread_index]
                )
        self.rows.tracks = [self.rows.tracks[index]._replace(id=number[index]) for index in number]
        return {index: number[moved.get(index, index)] for index in set(self.rows.track)}

    def _name_of_packet(self, track: Descriptor) -> str:
        """Return the name that a process or thread packet of an older trace gives a track; "" without one."""
        pid = track.pid or 0
        if track.is_process:
            return self.process_names.get(pid, "")
        return self.thread_names.get((pid, track.tid), "")

    def _ancestors(self, uuid: int) -> list[Descriptor]:
        """Return the track and its ancestors, at most 64 (descriptors may form a cycle)."""
        found: list[Descriptor] = []
        while (track := self.known.get(uuid)) is not None and len(found) < _MOST_ANCESTORS:
            found.append(track)
            if track.parent in (0, uuid):
                break
            uuid = track.parent
        return found

    def _lane_of(self, uuid: int) -> int | None:
        """Return the uuid of the thread or task whose additional lane this track is; None for other tracks.

        fastprof's writer names such a lane after its thread or task, with a number.
        """
        track = self.known.get(uuid)
        above = None if track is None else self.known.get(track.parent)
        if track is None or above is None or above.is_process:
            return None
        lane = EXTRA_LANE.fullmatch(track.name)
        return track.parent if lane and lane[1] == above.name else None

    def process(self) -> tuple[int, str]:
        """Return (pid, name) of the trace's first process."""
        for track in self.known.values():
            if track.is_process:
                return track.pid or 0, track.name or self._name_of_packet(track)
        for pid, name in self.process_names.items():
            return pid, name
        for track in self.known.values():
            if track.is_thread:
                return track.pid or 0, ""
        for pid, _ in self._threads:
            return pid, ""
        return 0, ""

    def processes(self) -> list[dict[str, Any]]:
        """Return metadata["processes"] of the table: pid and name of each, if there is more than one."""
        names = dict(self.process_names)
        for track in self.known.values():
            if track.is_process and track.pid is not None:
                names[track.pid] = track.name or names.get(track.pid, "")
        pids = {track.pid for track in self.rows.tracks}
        return described_processes(names, pids & names.keys())


def _thread(entry: dict[int, Any]) -> tuple[int, int]:
    return signed(entry.get(Thread.PID, 0)), signed(entry.get(Thread.TID, 0))


def _process(data: bytes) -> tuple[int, str]:
    entry = by_number(data, _CMDLINE)
    name = text(entry.get(Process.PROCESS_NAME, b""))
    if not name:
        name = " ".join(text(word) for word in entry.get(Process.CMDLINE, [])[:1])
    return signed(entry.get(Process.PID, 0)), name
