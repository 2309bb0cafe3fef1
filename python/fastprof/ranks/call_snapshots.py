# SPDX-License-Identifier: Apache-2.0
"""CallSnapshots: what torch's flight recorder knows of a rank's collectives, kept beside the records of a rank.

The flight recorder lies in the memory of the process and ends with it. In a job of gloo with several process groups, it
alone says which group a collective is of, so a thread copies the last calls to a file: 0.25 s after the recording was
prepared, then after twice as long, and every 5 s at last. Later collectives follow from the threads that ran the
earlier ones of each group.
"""

from __future__ import annotations

import _thread
import json
import os
import threading
import time
from contextlib import suppress
from typing import Any, NamedTuple

from fastprof.ranks.environment import rank_facts
from fastprof.ranks.host_groups import RecordedCall, recorded_calls
from fastprof.ranks.manifest import RECORDS, check_members

__all__ = ["CallSnapshots", "Snapshot", "read_snapshot"]

_PREFIX = "calls-"  # begin of the files' names, in place of RECORDS
_FIRST_S, _MOST_S = 0.25, 5.0
_KEPT_CALLS = 512  # 40 KB


class Snapshot(NamedTuple):
    """calls: of recorded_calls(). taken_ns: Unix time. groups: process groups of the rank, {"name", "ranks"} each."""

    calls: list[RecordedCall]
    taken_ns: int
    groups: list[dict[str, Any]]


class CallSnapshots:
    """A thread that keeps the snapshot of one backing file. records: its path. Ends with stop(), or the process."""

    def __init__(self, records: str) -> None:
        self._path = _path_beside(records)
        self._pid = os.getpid()
        self._stopped = threading.Event()
        _thread.start_new_thread(self._run, ())  # does not wait for it, as threading.Thread does

    def stop(self) -> None:
        """End the thread and remove the file. Does not wait. In a forked child: does nothing."""
        if self._pid == os.getpid():
            self._stopped.set()
            self._remove()

    def _run(self) -> None:
        wait_s = _FIRST_S
        while not self._stopped.wait(wait_s):
            wait_s = min(2 * wait_s, _MOST_S)
            with suppress(Exception):  # torch's interface is private, and the disk may be full
                self._write()
        self._remove()  # stop() may have come while the file was written

    def _write(self) -> None:
        taken_ns = time.time_ns()
        calls = recorded_calls()
        if not calls:
            return
        last = sorted(calls)[-_KEPT_CALLS:]
        text = json.dumps({"taken_ns": taken_ns, "calls": last, "groups": rank_facts().groups})
        temporary = f"{self._path}.tmp"
        with open(temporary, "w", encoding="utf-8") as file:
            file.write(text)
        os.replace(temporary, self._path)

    def _remove(self) -> None:
        for path in (self._path, f"{self._path}.tmp"):
            with suppress(OSError):
                os.unlink(path)


def read_snapshot(records: str) -> Snapshot | None:
    """Return the snapshot beside a backing file; None if there is none, or a damaged one. Any thread."""
    with suppress(Exception):  # written by a process that was killed
        with open(_path_beside(records), encoding="utf-8") as file:
            found = json.load(file)
        check_members(found, ["groups"])
        calls = [RecordedCall(int(a), str(b), str(c), int(d)) for a, b, c, d in found["calls"]]
        calls.sort(key=lambda each: (each.group, each.sequence))
        return Snapshot(calls, int(found["taken_ns"]), found["groups"])
    return None


def _path_beside(records: str) -> str:
    folder, name = os.path.split(records)
    return os.path.join(folder, _PREFIX + name.removeprefix(RECORDS))
