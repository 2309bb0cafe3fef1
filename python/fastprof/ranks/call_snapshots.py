# SPDX-License-Identifier: Apache-2.0
"""CallSnapshots: what torch's flight recorder knows of a rank's collectives, kept beside the records of a rank.

The flight recorder lies in the memory of the process and ends with it. In a job of gloo with several process groups, it
alone says which group a collective is of, so a thread copies the last calls to a file: 0.25 s after the recording was
prepared, then after twice as long, and every 5 s at last. Later collectives follow from the threads that ran the
earlier ones of each group, so that of a group with few calls, the last ones are kept, too.
"""

from __future__ import annotations

import _thread
import json
import os
import threading
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, NamedTuple

from fastprof.base import errors
from fastprof.ranks.environment import rank_facts
from fastprof.ranks.host_groups import RecordedCall, recorded_calls
from fastprof.ranks.manifest import RECORDS, check_members

__all__ = ["KEPT_CALLS", "CallSnapshots", "Snapshot", "last_calls", "read_snapshot"]

_PREFIX = "calls-"  # begin of the files' names, in place of RECORDS
_FIRST_S, _MOST_S = 0.25, 5.0
KEPT_CALLS = 512  # 40 KB


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
        calls = [each for each in recorded_calls() or () if each.created_ns <= taken_ns]
        if not calls:
            return
        last = last_calls(calls, KEPT_CALLS)
        text = json.dumps({"taken_ns": taken_ns, "calls": last, "groups": rank_facts().groups})
        temporary = f"{self._path}.tmp"
        with open(temporary, "w", encoding="utf-8") as file:
            file.write(text)
        os.replace(temporary, self._path)

    def _remove(self) -> None:
        for path in (self._path, f"{self._path}.tmp"):
            with suppress(OSError):
                os.unlink(path)


def last_calls(calls: Sequence[RecordedCall], most: int) -> list[RecordedCall]:
    """Return the last of recorded_calls(), with `later`: of each group as many as of the others, if it has so many."""
    later: Counter[str] = Counter()
    of_group: Counter[str] = Counter()
    found = []
    for each in sorted(calls, reverse=True):
        found.append((of_group[each.group], each._replace(later=later[each.name])))
        later[each.name] += 1
        of_group[each.group] += 1
    found.sort(key=lambda each: each[0])
    return [each for _, each in found[:most]]


def read_snapshot(records: str) -> Snapshot | None:
    """Return the snapshot beside a backing file; None if there is none. Any thread.

    Raises errors.FormatError, with the file's name, for a damaged one.
    """
    path = _path_beside(records)
    try:
        with open(path, encoding="utf-8") as file:
            found = json.load(file)
        if not isinstance(found, dict):
            raise errors.FormatError("no JSON object")
        check_members(found, ["taken_ns", "calls", "groups"])
    except OSError:
        return None
    except (ValueError, RecursionError) as error:
        raise errors.FormatError(f"{os.path.basename(path)}: {error}") from error
    calls = [RecordedCall(*each) for each in found["calls"]]
    return Snapshot(calls, found["taken_ns"], found["groups"])


def _path_beside(records: str) -> str:
    folder, name = os.path.split(records)
    return os.path.join(folder, _PREFIX + name.removeprefix(RECORDS))
