# SPDX-License-Identifier: Apache-2.0
"""TableResults: the methods of EventTable that a profile has too, so that a loaded trace is used like one."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from fastprof import _outputs

if TYPE_CHECKING:
    from fastprof._outputs import EventList, FunctionEvent, FunctionEventAvg

__all__ = ["TableResults"]


class TableResults:
    """Base of EventTable. What computes and writes the results is loaded on first use (_outputs.py)."""

    __slots__ = ()

    def events(self) -> EventList[FunctionEvent]:
        """Return the table's events, with device times, memory and FLOPs if the table has them.

        A new list, computed lazily: keep it in a variable if several results are needed. Any thread.
        """
        events: EventList[FunctionEvent] = _outputs.output("events")(self)
        return events

    def key_averages(self, *args: Any, **kwargs: Any) -> EventList[FunctionEventAvg]:
        """Return averages grouped by name; arguments as of EventList.key_averages.

        print(fastprof.load("trace.json").key_averages().table(row_limit=10))
        """
        return self.events().key_averages(*args, **kwargs)

    def table(self, *args: Any, **kwargs: Any) -> str:
        """Return the events as a text table; arguments as of EventList.table."""
        return self.events().table(*args, **kwargs)

    def export(self, path: str | os.PathLike[str], format: str | None = None) -> None:
        """Write the table to a file, in the format of the path's suffix; compressed with gzip if it ends in .gz.

        format: "native", "chrome", "perfetto", "speedscope", "gecko", "pprof", "folded", "pstats", "html",
        "csv" or "memory"; default: by the suffix (.fastprof, .json, .pftrace, .speedscope.json, .gecko.json, .pprof,
        .folded, .pstats, .html, .csv, .memory.html, ...). Raises errors.ValueError for an unknown suffix or
        format, errors.IoError if the file cannot be written, and errors.Error if the format cannot represent the
        table. Any thread.

            fastprof.load("trace.json").export("trace.pftrace")
        """
        kind = _outputs.format_of(path, format)
        _outputs.export(path, kind, lambda: self, self.events)
