# SPDX-License-Identifier: Apache-2.0
"""Text of `perf script`, which prints the samples of Linux's `perf record -g`.

A sample is a line with the thread, the time and the event, then a line for each frame, innermost first, then an empty
line. Functions of Python are in it where the interpreter wrote a perf map (`python -X perf`): `py::name:file`.
Format: the pages perf-script and perf-record of the perf manual.
"""

from __future__ import annotations

import re
import statistics
from collections import Counter
from dataclasses import dataclass, field

from fastprof.base import errors
from fastprof.importers.sampled.stack_rows import StackRows, StackTree, malformed
from fastprof.importers.sampled.whole_file import text_lines
from fastprof.importers.source import Source
from fastprof.model.table import EventTable

__all__ = ["PERF_SAMPLE", "read_perf_script"]

# comm, pid/ if printed, tid, [cpu] and flags if printed, seconds, period if printed, event, and what follows it.
PERF_SAMPLE = (
    r"(?P<comm>\S.{0,63}?)\s+(?:(?P<pid>-?\d{1,10})/\s*)?(?P<tid>-?\d{1,10})\s+(?:\[(?P<cpu>\d{1,6})\]\s+)?(?:[\w.]{4,6}\s+)?"
    r"(?P<s>\d{1,12})\.(?P<fraction>\d{6,9}):\s+(?:(?P<period>\d{1,20})\s+)?(?!PERF_RECORD_)(?P<event>\S{1,200}?):(?=\s|$)"
)
_SAMPLE = re.compile(PERF_SAMPLE + r"\s*(?P<rest>.*)")
_FRAME = re.compile(
    r"\s*[0-9a-f]{1,16} (?P<name>\S.*?)(?:\+0x[0-9a-f]+)?(?: \((?P<file>[^()]*(?:\(deleted\))?)\))?\s*"
)
_PYTHON = re.compile(r"py::(?P<name>[^:]*):(?P<file>.+)")
# An event without its modifiers, and without the kind of cores: on hybrid CPUs, one event has two.
_EVENT = re.compile(r"(?:cpu_\w+/)?(?P<name>[^/:]+)/?(?::?[ukhpPGHISDWe]+)?")
_SAMPLES_BETWEEN_CHECKS = 1 << 16
_SAMPLE_BYTES, _NODE_BYTES = 150, 300


@dataclass(slots=True)
class _Thread:
    name: str
    tree: StackTree = field(default_factory=StackTree)
    samples: list[tuple[int, int, int]] = field(default_factory=list)  # ns, period in ns or 0, node


def read_perf_script(source: Source) -> EventTable:
    """Return the rows of the samples of the first event that the text has.

    A sample lasts for its period, if that is a time (cpu-clock, task-clock), or for the median distance of a thread's
    samples; to the next sample, if that is near. A thread that was off the CPU meanwhile has no rows.
    """
    rows = StackRows(source, "perf-script")
    with malformed(source):
        return _Reader(source, rows).read()


class _Reader:
    def __init__(self, source: Source, rows: StackRows) -> None:
        self._source = source
        self._rows = rows
        self._threads: dict[tuple[int, int, str], _Thread] = {}
        self._frames: dict[tuple[str, str], int] = {}
        self._left_out: Counter[str] = Counter()
        self._event = ""
        self._open: tuple[_Thread, int, int] | None = None  # thread, ns and period of the sample
        self._stack: list[int] = []
        self._count = 0

    def read(self) -> EventTable:
        in_sample = False  # also one that is left out
        for line in text_lines(self._source):
            if not line.strip():
                self._close()
                in_sample = False
            elif in_sample and line[0] in " \t" and (frame := _FRAME.fullmatch(line)):
                if self._open is not None:
                    self._stack.append(self._frame(frame["name"], frame["file"] or ""))
            elif found := _SAMPLE.fullmatch(line.strip()):
                self._close()
                in_sample = self._begin(found)
            elif not line.startswith("#"):
                self._left_out["line that is neither a sample nor a frame"] += 1
        if self._open is not None:  # perf ends each stack with an empty line
            self._left_out["sample that the end of the file cuts"] += 1
        if not self._count:
            raise errors.FormatError(
                "no complete sample of `perf script`, which prints the time of each by default"
            )
        self._add_rows()
        sizes: Counter[int] = Counter()
        names: dict[int, str] = {}  # of main threads
        for (pid, tid, _), thread in self._threads.items():
            sizes[pid] += len(thread.samples)
            if pid == tid:
                names[pid] = thread.name
        pid = sizes.most_common(1)[0][0]
        facts = {"skipped_events": dict(self._left_out), "perf_event": self._event}
        return self._rows.finish(names.get(pid, "") if pid else "", pid, **facts)

    def _begin(self, found: re.Match[str]) -> bool:
        """Begin a sample; return whether lines with frames follow."""
        known = _EVENT.fullmatch(found["event"])
        event = known["name"] if known else found["event"]
        self._event = self._event or event
        if event != self._event:
            self._left_out[f"sample of {event}"] += 1
            return _FRAME.fullmatch(found["rest"]) is None
        tid = int(found["tid"])
        # Each CPU has an idle thread of the number 0.
        key = (int(found["pid"] or 0), tid, "" if tid else found["cpu"] or "")
        thread = self._threads.get(key)
        if thread is None:
            thread = self._threads[key] = _Thread(found["comm"])
        thread.name = found["comm"]
        at_ns = int(found["s"]) * 1_000_000_000 + int(found["fraction"].ljust(9, "0"))
        is_time = self._event in ("cpu-clock", "task-clock")
        self._open = (thread, at_ns, int(found["period"] or 0) if is_time else 0)
        alone = _FRAME.fullmatch(found["rest"])
        if alone is not None:  # recorded without -g: the frame is on the same line
            self._stack.append(self._frame(alone["name"], alone["file"] or ""))
            self._close()
        return alone is None

    def _close(self) -> None:
        """End the sample that is being read."""
        if self._open is not None:
            thread, at_ns, period_ns = self._open
            node = thread.tree.path(reversed(self._stack))
            thread.samples.append((at_ns, period_ns, node))
            self._count += 1
            if self._count % _SAMPLES_BETWEEN_CHECKS == 0:
                nodes = sum(len(each.tree.frame) for each in self._threads.values())
                self._source.budget.check(_SAMPLE_BYTES * self._count + _NODE_BYTES * nodes)
        self._open, self._stack = None, []

    def _frame(self, name: str, file: str) -> int:
        frame = self._frames.get((name, file))
        if frame is None:
            python = _PYTHON.fullmatch(name)
            if python is not None:
                frame = self._rows.frame(python["name"], python["file"])
            else:
                is_file = file not in ("[unknown]", "inlined", "")
                kernel = file.startswith(("[kernel", "[guest.kernel"))
                frame = self._rows.frame(name, "kernel" if kernel else file if is_file else "")
            self._frames[name, file] = frame
        return frame

    def _add_rows(self) -> None:
        for thread in self._threads.values():
            thread.samples.sort(key=lambda sample: sample[0])
        gaps = [
            after[0] - before[0]
            for thread in self._threads.values()
            for before, after in zip(thread.samples, thread.samples[1:], strict=False)
        ]
        usual_ns = round(statistics.median(gaps)) if gaps else 0
        for (pid, tid, cpu), thread in self._threads.items():
            samples: list[tuple[int, int]] = []
            end_ns = 0
            for at_ns, period_ns, node in thread.samples:
                length_ns = period_ns or usual_ns
                if samples and at_ns - end_ns > length_ns / 2:
                    samples.append((end_ns, -1))
                samples.append((at_ns, node))
                end_ns = at_ns + length_ns
            track = self._rows.track(thread.name, pid, tid, key=(pid, tid, cpu))
            self._rows.add_samples(track, thread.tree, samples, end_ns)
        self._rows.samples = self._count  # without the ends of those before a gap
