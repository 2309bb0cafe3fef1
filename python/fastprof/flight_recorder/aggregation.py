# SPDX-License-Identifier: Apache-2.0
"""Aggregation: statistics of all ranges per name beside a flight recorder, and their files."""

from __future__ import annotations

import contextlib
import os
import re
import threading
import time
from typing import Any

from fastprof import _core
from fastprof.base import errors
from fastprof.model.aggregates import SUFFIX, Aggregates
from fastprof.profiler.handlers import make_folder
from fastprof.profiler.recovery import program_name

__all__ = ["WINDOWS", "Aggregation"]

WINDOWS = {
    "minute": _core.TotalsWindow.MINUTE,
    "hour": _core.TotalsWindow.HOUR,
    "all": _core.TotalsWindow.ALL,
}

_FIRST_FILE_S = 1.0


class Aggregation:
    """Aggregates ranges from its construction until close(). Any thread may call its methods.

    records: path of the recorder's records, beside which the files lie. folder: where they lie instead, and stay.
    max_bytes: memory of records between two reads. Raises errors.Error if it cannot begin.
    """

    # Time between two calls of look(). A window's bounds are exact to so much.
    PERIOD_S = 0.25

    def __init__(self, records: str, folder: str | None, max_bytes: int) -> None:
        self._stem = os.path.splitext(records)[0]
        self._keeps = folder is not None
        if folder is not None:
            make_folder(folder, "aggregates")
            program = re.sub(r"[^\w.-]+", "_", program_name() or "python").strip("-")[:40]
            rank = f"-rank{os.environ['RANK']}" if os.environ.get("RANK", "").isdecimal() else ""
            self._stem = os.path.join(folder, f"{program}{rank}-{os.getpid()}")
        self._lock = threading.Lock()
        self.problem = ""  # why files are not written; "": they are
        self._wrote, self._began_s = False, time.monotonic()
        self._aggregator = _core.Aggregator(max_bytes)
        self._aggregator.begin()

    def pause(self) -> None:
        """End the native thread that reads, for a fork: Python warns of forks in processes with several threads."""
        self._aggregator.pause()

    def resume(self) -> None:
        """Start the thread again."""
        self._aggregator.begin()

    def path(self, window: str) -> str:
        """Return the path of the file with the last complete window ("all": until the last minute)."""
        return f"{self._stem}.{window}{SUFFIX}"

    def look(self) -> None:
        """Write the files of windows that are over."""
        if not self._aggregator.is_over(_core.TotalsWindow.MINUTE):
            if not self._wrote and time.monotonic() > self._began_s + _FIRST_FILE_S:
                with self._lock:  # so that a program that ends within a minute has left one
                    self._write(["all"])
            return
        self._aggregator.read()
        with self._lock:
            hour = self._aggregator.is_over(_core.TotalsWindow.HOUR)
            self._write(["minute", *(["hour"] if hour else []), "all"])
            self._aggregator.begin_minute()

    def now(self, window: str) -> Aggregates:
        """Return the last complete minute or hour (the running one before there is one), or all until now.

        Raises errors.ValueError for another window.
        """
        if window not in WINDOWS:
            raise errors.ValueError(f"unknown window {window!r}. Use one of {', '.join(WINDOWS)}.")
        if window != "all":
            with contextlib.suppress(errors.Error):
                return Aggregates.load(self.path(window))
        self._aggregator.read()
        with self._lock:
            return self._running(window)

    def facts(self) -> dict[str, Any]:
        """Return counts, and the path of the file, as values that JSON can represent."""
        return {
            "file": self.path("all"),
            "ranges": self._aggregator.ranges(),
            "dropped": self._aggregator.dropped(),
        }

    def close(self) -> None:
        """End it. Files in a folder of their own are brought up to now; others are removed."""
        self._aggregator.pause()
        with self._lock:
            if self._keeps:
                self._aggregator.read()
                self._write(["all"])
                return
            for window in WINDOWS:
                with contextlib.suppress(OSError):
                    os.unlink(self.path(window))

    def _running(self, window: str) -> Aggregates:
        aggregator, kind = self._aggregator, WINDOWS[window]
        facts: dict[str, Any] = {
            "window": window,
            "from_unix_ns": aggregator.began_ns(kind),
            "to_unix_ns": aggregator.read_until_ns(),
            "pid": os.getpid(),
            "program": program_name(),
            "ranges": aggregator.ranges(),
            "open": aggregator.open(),
            "dropped": aggregator.dropped(),
        }
        if rank := os.environ.get("RANK"):
            facts["rank"] = rank
        return Aggregates.of_columns(aggregator.columns(kind), facts)

    def _write(self, windows: list[str]) -> None:
        self._wrote = True
        try:
            for window in windows:
                self._running(window).save(self.path(window))
            self.problem = ""
        except errors.Error as error:
            self.problem = str(error)
