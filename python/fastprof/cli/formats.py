# SPDX-License-Identifier: Apache-2.0
"""Output formats: choose one by the suffix of a path, and write a table in it."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Callable
from importlib import import_module
from typing import NamedTuple

from fastprof.base import errors
from fastprof.cli.parser import suggestion
from fastprof.model.table import EventTable

__all__ = ["FORMATS", "Format", "check_memory_path", "format_of", "write_table"]

Progress = Callable[[int, int], None]


class Format(NamedTuple):
    """An output format.

    suffixes: of paths; the first is that of standard output's file. writer: "module:function", called with (table,
    path), or a function that is called with (table, path, progress).
    """

    suffixes: tuple[str, ...]
    description: str
    writer: str | Callable[[EventTable, str, Progress | None], None]


def _native(table: EventTable, path: str, progress: Progress | None) -> None:
    from fastprof.exporters.native_file import save

    save(table, path, progress=progress)


def _folded(table: EventTable, path: str, progress: Progress | None) -> None:
    from fastprof.exporters.range_stacks import export_range_stacks

    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        export_range_stacks(table, path, threads=True)
    for warning in found:
        print(f"fastprof: {warning.message}", file=sys.stderr)


def _speedscope(table: EventTable, path: str, progress: Progress | None) -> None:
    from fastprof.exporters.speedscope import export_speedscope

    export_speedscope(table, path, table.process_name or "fastprof")


def _pstats(table: EventTable, path: str, progress: Progress | None) -> None:
    from fastprof.views.python_calls import PythonCallStats

    PythonCallStats(table).export_pstats(path)


def _csv(table: EventTable, path: str, progress: Progress | None) -> None:
    from fastprof.cli.event_lists import list_of

    list_of(table).export_csv(path)


def _html(table: EventTable, path: str, progress: Progress | None) -> None:
    from fastprof.cli.event_lists import list_of
    from fastprof.report.export import export_html

    export_html(list_of(table), path)


# The longest matching suffix decides.
FORMATS = {
    "native": Format((".fastprof",), "fastprof's own: complete and compact", _native),
    "chrome": Format(
        (".json",),
        "ui.perfetto.dev, chrome://tracing, TensorBoard, HTA",
        "fastprof.exporters.trace_writers:write_chrome_trace",
    ),
    "perfetto": Format(
        (".pftrace", ".perfetto-trace"),
        "ui.perfetto.dev; a fifth of the size",
        "fastprof.exporters.trace_writers:write_perfetto_trace",
    ),
    "speedscope": Format((".speedscope.json",), "speedscope.app: flame graph", _speedscope),
    "folded": Format((".folded", ".txt"), "collapsed stacks in ns, for flame graph tools", _folded),
    "pstats": Format((".pstats", ".prof"), "calls by function: pstats, snakeviz, tuna", _pstats),
    "html": Format(
        (".html", ".htm"), "a page to look at: timeline, flame graph, table, source", _html
    ),
    "csv": Format((".csv",), "the events as a table", _csv),
    "memory": Format(
        (".memory.json", ".memory.csv", ".memory.html"),
        "memory over time",
        "fastprof.exporters.memory_timeline:export_memory_timeline",
    ),
}


def format_of(path: str, given: str | None = None) -> str:
    """Return `given`, or else the format of the path's suffix (.gz may follow).

    Raises errors.ValueError for an unknown suffix.
    """
    if given is not None:
        return given
    name = os.path.basename(path).removesuffix(".gz")
    found = [
        (len(suffix), kind)
        for kind, (suffixes, _, _) in FORMATS.items()
        for suffix in suffixes
        if name.endswith(suffix)
    ]
    if found:
        return max(found)[1]
    known = ", ".join(suffix for suffixes, _, _ in FORMATS.values() for suffix in suffixes)
    suffix = os.path.splitext(name)[1]
    close = suggestion(suffix, known.split(", ")) if suffix else ""
    raise errors.ValueError(
        f"unknown format of {path}{close}. Use one of the suffixes {known}, or --to FORMAT."
    )


def check_memory_path(path: str) -> None:
    """Raise errors.ValueError if memory over time cannot be written with the suffix of `path`."""
    if os.path.splitext(path.removesuffix(".gz"))[1] not in (".json", ".csv", ".html"):
        raise errors.ValueError(
            f"cannot write memory over time to {path}: unknown suffix. Use .json, .csv or .html."
        )


def write_table(table: EventTable, path: str, kind: str) -> None:
    """Write a table in one of FORMATS; show a progress bar on a terminal.

    Raises errors.IoError if the file cannot be written, and errors.Error if the format cannot represent the table.
    """
    from fastprof.exporters.progress import terminal_progress

    with terminal_progress(f"writing {path}") as progress:
        writer = FORMATS[kind].writer
        if isinstance(writer, str):
            module, function = writer.split(":")
            getattr(import_module(module), function)(table, path)
        else:
            writer(table, path, progress)


def format_help() -> str:
    """Return the list of formats for a parser's epilog."""
    lines = ["formats and their suffixes (add .gz to compress):"]
    for kind, (suffixes, what, _) in FORMATS.items():
        lines.append(f"  {kind:<11}{' '.join(suffixes):<36}{what}")
    return "\n".join(lines) + "\n"
