# SPDX-License-Identifier: Apache-2.0
"""austin's binary format, MOJO, versions 1 to 3 (`austin -b`).

Format: https://github.com/P403n1x87/austin/wiki/The-MOJO-file-format. "MOJ", the version, then events of one byte and
their fields: numbers of 6 or 13, 20, ... bits with a sign, and texts that end with a 0. Strings and frames are numbered
by process. A sample is a stack, its frames from the outermost on, and metrics: the time in us since the thread's
previous sample, or a number of bytes.
"""

from __future__ import annotations

from fastprof.base import errors
from fastprof.importers.sampled.stack_rows import StackRows, StackTree, malformed
from fastprof.importers.sampled.whole_file import whole_file
from fastprof.importers.source import Source
from fastprof.model.table import EventTable

__all__ = ["read_mojo"]

_BYTES_A_BYTE = 40  # memory that rows and the tables take
_METADATA, _STACK, _FRAME, _INVALID, _FRAME_REF, _KERNEL, _GC = 1, 2, 3, 4, 5, 6, 7
_IDLE, _TIME, _MEMORY, _STRING, _STRING_REF = 8, 9, 10, 11, 12
_UNKNOWN = 1  # number of the string "<unknown>", which is not in the file
_NEWEST = 3


def read_mojo(source: Source) -> EventTable:
    """Return the rows of a MOJO file: of each thread, its samples one after the other."""
    data = whole_file(source, _BYTES_A_BYTE)
    with malformed(source):
        return _Reader(source, data).read()


class _Thread:
    def __init__(self, track: int) -> None:
        self.track = track
        self.tree = StackTree()
        self.samples: list[tuple[int, int]] = []
        self.end_ns = 0


class _Reader:
    def __init__(self, source: Source, data: bytes) -> None:
        self._rows = StackRows(source, "mojo")
        self._data, self._at = data, len(b"MOJ")
        self._texts: dict[tuple[int, int], str] = {}  # by process and number
        self._frames: dict[tuple[int, int], int] = {}
        self._threads: dict[tuple[int, int, str], _Thread] = {}
        self._facts: dict[str, str] = {}
        self._pid = 0
        self._thread: _Thread | None = None
        self._stack: list[int] = []
        self._time_us: int | None = None
        self._memory = 0

    def read(self) -> EventTable:
        version = self._number()
        if not 1 <= version <= _NEWEST:
            raise errors.FormatError(
                f"version {version} of MOJO is not known: convert the file with mojo2austin"
            )
        size = len(self._data)
        while self._at < size:
            self._event(self._data[self._at], version)
        self._finish_sample()
        for thread in self._threads.values():
            self._rows.add_samples(thread.track, thread.tree, thread.samples, thread.end_ns)
        return self._rows.finish(austin=self._facts)

    def _event(self, kind: int, version: int) -> None:
        begin = self._at
        self._at += 1
        if kind == _FRAME_REF:
            self._stack.append(self._frames[self._pid, self._number()])
        elif kind == _STACK:
            self._finish_sample()
            self._begin_sample(self._number(), self._number() if version >= 3 else 0, self._text())
        elif kind == _TIME:
            self._time_us = self._number()
        elif kind == _MEMORY:
            self._memory = self._number()
        elif kind == _FRAME:
            number, file, scope, line = (self._number() for _ in range(4))
            if version > 1:  # its end, and columns
                for _ in range(3):
                    self._number()
            frame = self._rows.frame(self._named(scope), self._named(file), line)
            self._frames[self._pid, number] = frame
        elif kind == _STRING:
            number = self._number()
            self._texts[self._pid, number] = self._text()
        elif kind == _KERNEL:
            self._stack.append(self._rows.frame(self._text(), "kernel"))
        elif kind in (_INVALID, _GC):
            self._stack.append(self._rows.frame("(invalid)" if kind == _INVALID else "(gc)"))
        elif kind == _METADATA:
            name = self._text()
            self._facts[name] = self._text()
        elif kind == _STRING_REF:
            self._number()
        elif kind != _IDLE:
            raise errors.FormatError(f"offset {begin}: unknown event {kind}")

    def _begin_sample(self, pid: int, interpreter: int, thread: str) -> None:
        self._pid = pid
        found = self._threads.get((pid, interpreter, thread))
        if found is None:
            key = (pid, interpreter, thread)
            digits = thread.rpartition(":")[2]
            tid = int(digits, 16) if digits.isalnum() and len(digits) <= 16 else 0
            found = self._threads[key] = _Thread(self._rows.track("", pid, tid, key))
        self._thread = found

    def _finish_sample(self) -> None:
        thread = self._thread
        if thread is not None:
            amount = self._memory if self._time_us is None else 1000 * self._time_us
            thread.samples.append((thread.end_ns, thread.tree.path(self._stack)))
            thread.end_ns += max(amount, 0)
        self._thread, self._stack, self._time_us, self._memory = None, [], None, 0

    def _named(self, number: int) -> str:
        return "" if number == _UNKNOWN else self._texts[self._pid, number]

    def _number(self) -> int:
        first = byte = self._data[self._at]
        self._at += 1
        value, shift = byte & 0x3F, 6
        while byte & 0x80:
            byte = self._data[self._at]
            self._at += 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if shift > 70:
                raise errors.FormatError(f"offset {self._at}: a number is too long")
        return -value if first & 0x40 else value

    def _text(self) -> str:
        end = self._data.index(0, self._at)
        text = self._data[self._at : end].decode("utf-8", "replace")
        self._at = end + 1
        return text
