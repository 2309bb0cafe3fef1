# SPDX-License-Identifier: Apache-2.0
"""LiveReader: what a process with a flight recorder did in its last seconds, read from its file without asking it."""

from __future__ import annotations

import contextlib
import os
import tempfile
import time
from dataclasses import asdict, dataclass, field
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from fastprof import _core
from fastprof.base import errors
from fastprof.flight_recorder.dumps import read_dump, write_dump
from fastprof.flight_recorder.recent_samples import SampleFollower
from fastprof.flight_recorder.step_times import StepTimes
from fastprof.flight_recorder.triggers import rss_bytes
from fastprof.model.columns import EventKind
from fastprof.model.nesting import sum_by
from fastprof.model.table import EventTable
from fastprof.model.tree import EventTree
from fastprof.record.process_folder import FoundProcess, stored_bytes

__all__ = ["LiveReader", "LiveView"]

Array: TypeAlias = NDArray[Any]

_MOST_NAMES, _MOST_STEPS = 50, 200
_STEP = "ProfilerStep#"


@dataclass
class LiveView:
    """The last `seconds` of a process. Times are in s unless the name says otherwise; shares are of `seconds`.

    names: [{name, self_s, total_s, share, count}], by self time. threads: [{name, busy_s, share, events}], by busy
    time. steps: finished ones of the last seconds, oldest first, {number, duration_s, end_unix_s}; step_count counts
    those of this reader. functions: with samples (sample_hz), see SampleFollower.functions(). events: begun in the
    last seconds; left_out: chunks of records that changed while read.
    recorder_share: an estimate of what recording takes of one CPU, from the events and the cost of one.
    """

    pid: int
    unix_s: float
    seconds: float
    alive: bool
    events: int = 0
    events_per_s: float = 0.0
    left_out: int = 0
    rss_bytes: int = 0
    cpu_share: float = 0.0
    recorder_bytes: int = 0
    recorder_share: float = 0.0
    step_count: int = 0
    steps_per_s: float = 0.0
    step_median_s: float = 0.0
    step_p99_s: float = 0.0
    step_max_s: float = 0.0
    names: list[dict[str, Any]] = field(default_factory=list)
    threads: list[dict[str, Any]] = field(default_factory=list)
    steps: list[dict[str, Any]] = field(default_factory=list)
    functions: list[dict[str, Any]] = field(default_factory=list)

    def as_dict(self) -> dict[str, Any]:
        """Return the view as values that JSON can represent."""
        return asdict(self)


class LiveReader:
    """Reads views of one process. Not thread-safe.

    process: one with records. seconds: length of a view. Nothing of the process runs for it, so that it may hang or
    be stopped meanwhile.
    """

    # CPU time of a recorded range with what it overwrites: `python benchmarks/run.py always_on`.
    EVENT_S = 45e-9

    def __init__(self, process: FoundProcess, seconds: float = 2.0) -> None:
        if not process.records:
            raise errors.UnavailableError(
                f"process {process.pid} has no records yet; `fastprof profile {process.pid}` makes a profile"
            )
        self.process = process
        self.records = process.records[-1]
        self.seconds = seconds
        self._steps = StepTimes()
        self._samples = SampleFollower(self.records)
        self._last_step_ns = 0
        self._cpu_s, self._cpu_at_s = _cpu_seconds(process.pid), time.monotonic()

    def look(self) -> LiveView:
        """Return the view of now. Raises errors.IoError if the process has ended orderly, and its file is gone."""
        table, left_out = self._read()
        pid = self.process.pid
        view = LiveView(
            pid, time.time(), self.seconds, _core.process_start(pid) == self.process.start
        )
        view.left_out = left_out
        self._fill_usage(view)
        starts, ends = table.start_ns, table.end_ns
        tree = EventTree.of(table)
        inside = np.minimum(ends, table.t1_ns) - np.maximum(starts, table.t0_ns)
        durations = np.maximum(tree.take(inside), 0)
        if tree.is_async is not None:
            durations = np.where(tree.is_async, 0, durations)
        own = durations - tree.sum_children(durations)
        view.events = int(np.count_nonzero(starts >= table.t0_ns))
        covered_s = max((table.t1_ns - table.t0_ns) / 1e9, 1e-3)
        view.seconds = min(self.seconds, covered_s)
        view.events_per_s = view.events / view.seconds
        view.recorder_share = view.events_per_s * self.EVENT_S
        is_step = np.array([str(name).startswith(_STEP) for name in table.names], np.bool_)
        self._fill_names(view, table, tree, durations, own, is_step)
        self._fill_threads(view, table, tree, durations, is_step)
        self._fill_steps(view, table, is_step)
        view.functions = self._samples.functions(view.seconds, _MOST_NAMES)
        return view

    def dump(self, path: str) -> None:
        """Write a dump of the process as `fastprof dump` does; the file must not exist."""
        write_dump(self.records, path, "fastprof live", seconds=30.0)

    def _read(self) -> tuple[EventTable, int]:
        # A folder would take a fifth of a view's CPU time. The copy is made by O_EXCL, for this user alone.
        name = f"fastprof-live-{os.urandom(16).hex()}"
        copy = os.path.join(tempfile.gettempdir(), name)
        try:
            _, left_out = _core.copy_backing_file(
                os.fsencode(self.records), os.fsencode(copy), newest_ns=int(self.seconds * 1e9)
            )
            return read_dump(copy, seconds=self.seconds), left_out
        finally:
            with contextlib.suppress(OSError):
                os.unlink(copy)

    def _fill_usage(self, view: LiveView) -> None:
        cpu_s, now_s = _cpu_seconds(view.pid), time.monotonic()
        passed_s = now_s - self._cpu_at_s
        if passed_s > 0 and cpu_s >= self._cpu_s:
            view.cpu_share = (cpu_s - self._cpu_s) / passed_s
        self._cpu_s, self._cpu_at_s = cpu_s, now_s
        view.rss_bytes = rss_bytes(view.pid)
        view.recorder_bytes = stored_bytes(self.records)

    def _fill_names(
        self,
        view: LiveView,
        table: EventTable,
        tree: EventTree,
        durations: Array,
        own: Array,
        is_step: Array,
    ) -> None:
        codes, names = tree.take(table.name_id), table.names
        total_ns, own_ns = (sum_by(codes, values, len(names)) for values in (durations, own))
        counts = np.bincount(codes, minlength=len(names))
        merged: dict[str, list[int]] = {}
        for code in np.flatnonzero(counts).tolist():
            name = _STEP + "*" if is_step[code] else str(names[code])
            sums = merged.setdefault(name, [0, 0, 0])
            for at, values in enumerate((own_ns, total_ns, counts)):
                sums[at] += int(values[code])
        largest = sorted(merged.items(), key=lambda each: (-each[1][0], -each[1][2], each[0]))
        view.names = [
            {
                "name": name,
                "self_s": self_ns / 1e9,
                "total_s": whole_ns / 1e9,
                "share": self_ns / 1e9 / view.seconds,
                "count": count,
            }
            for name, (self_ns, whole_ns, count) in largest[:_MOST_NAMES]
        ]

    def _fill_threads(
        self, view: LiveView, table: EventTable, tree: EventTree, durations: Array, is_step: Array
    ) -> None:
        """Busy: within ranges other than steps, which last as long as the program."""
        known = {track.id: track.name for track in table.tracks.rows}
        tracks, codes = np.unique(tree.take(table.thread), return_inverse=True)
        steps = is_step[tree.take(table.name_id)]
        around = tree.parent  # the innermost range around each that is no step
        while np.any(in_step := (around >= 0) & steps[around]):
            around = np.where(in_step, tree.parent[around], around)
        busy_ns = sum_by(codes, np.where((around < 0) & ~steps, durations, 0), len(tracks))
        counts = np.bincount(codes, minlength=len(tracks))
        view.threads = [
            {
                "name": known.get(int(tracks[at])) or f"thread {int(tracks[at])}",
                "busy_s": busy_ns[at] / 1e9,
                "share": min(busy_ns[at] / 1e9 / view.seconds, 1.0),
                "events": int(counts[at]),
            }
            for at in np.argsort(-busy_ns, kind="stable").tolist()
        ]

    def _fill_steps(self, view: LiveView, table: EventTable, is_step: Array) -> None:
        rows = np.flatnonzero(is_step[table.name_id])
        if table.has("kind"):
            rows = rows[table.column("kind")[rows] == EventKind.RANGE]
        rows = rows[table.end_ns[rows] < table.t1_ns]  # else it is open
        rows = rows[np.argsort(table.end_ns[rows])]
        names, ends_ns = table.names, table.end_ns[rows]
        durations_ns, codes = ends_ns - table.start_ns[rows], table.name_id[rows]
        for code, end_ns, duration_ns in zip(
            *(each.tolist() for each in (codes, ends_ns, durations_ns)), strict=True
        ):
            number, duration_s = str(names[code])[len(_STEP) :], duration_ns / 1e9
            view.steps.append(
                {"number": number, "duration_s": duration_s, "end_unix_s": end_ns / 1e9}
            )
            if end_ns > self._last_step_ns:
                self._steps.add(duration_s)
                self._last_step_ns = end_ns
        view.steps_per_s = len(view.steps) / view.seconds
        del view.steps[:-_MOST_STEPS]
        view.step_count = self._steps.count
        view.step_median_s, view.step_p99_s = (self._steps.quantile_s(q) for q in (0.5, 0.99))
        view.step_max_s = self._steps.max_s


def _cpu_seconds(pid: int) -> float:
    """Return the CPU time that a process has used; 0.0 if it cannot be read. Fields 14 and 15 of proc_pid_stat(5)."""
    try:
        with open(f"/proc/{pid}/stat") as file:
            words = file.read().rpartition(")")[2].split()
        return (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")
    except (OSError, ValueError, IndexError):
        return 0.0
