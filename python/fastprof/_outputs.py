# SPDX-License-Identifier: Apache-2.0
"""What results can be shown as and exported to: outputs by name, and file formats by suffix.

Functions are named as text and imported when called, so that any folder can use this module: a table has the methods of
a list, and `import fastprof.views` loads neither rendering nor exporting. A new output or format is one line.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple

from fastprof.base import errors
from fastprof.base.formatting import suggestion

if TYPE_CHECKING:
    from fastprof.views import EventList as EventList
    from fastprof.views import FunctionEvent as FunctionEvent
    from fastprof.views import FunctionEventAvg as FunctionEventAvg

__all__ = ["FORMATS", "OUTPUTS", "Format", "export", "format_of", "output"]

# Name -> "module:attribute".
OUTPUTS = {
    "events": "fastprof.views.table_events:events_of_table",
    "options": "fastprof.views.render:TableOptions",
    "table": "fastprof.views.render:render_table",
    "html": "fastprof.views.html_view:render_html",
    "tree": "fastprof.views.tree_text:tree_text",
    "tree_options": "fastprof.views.tree_text:TreeOptions",
    "plot": "fastprof.views.plot:plot",
    "stack_metrics": "fastprof.exporters.stacks:STACK_METRICS",
    "stacks": "fastprof.exporters.stacks:export_stacks",
    "chrome": "fastprof.exporters.list_trace:export_chrome_trace",
    "columns": "fastprof.exporters.tabular:list_columns",
    "pandas": "fastprof.exporters.tabular:to_pandas",
    "polars": "fastprof.exporters.tabular:to_polars",
    "arrow": "fastprof.exporters.tabular:to_arrow",
    "csv": "fastprof.exporters.tabular:export_csv",
    "json": "fastprof.exporters.tabular:export_json",
}


class Format(NamedTuple):
    """A file format. writer: "module:function", called with (table, path), or with (list of events, path)."""

    suffixes: tuple[str, ...]  # the first is that of standard output's file
    description: str
    writer: str
    of_list: bool = False


# The longest matching suffix decides.
FORMATS = {
    "native": Format(
        (".fastprof",),
        "fastprof's own: complete and compact",
        "fastprof.exporters.native_file:save",
    ),
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
    "speedscope": Format(
        (".speedscope.json",),
        "speedscope.app: flame graph",
        "fastprof.exporters.speedscope:export_speedscope",
    ),
    "gecko": Format(
        (".gecko.json",),
        "profiler.firefox.com: call tree, flame graph, markers",
        "fastprof.exporters.gecko:export_gecko",
    ),
    "pprof": Format(
        (".pprof", ".pb"),
        "go tool pprof, Pyroscope, Parca: stacks",
        "fastprof.exporters.pprof:export_pprof",
    ),
    "folded": Format(
        (".folded", ".txt"),
        "collapsed stacks in ns, for flame graph tools",
        "fastprof.exporters.range_stacks:export_thread_stacks",
    ),
    "pstats": Format(
        (".pstats", ".prof"),
        "calls by function: pstats, snakeviz, tuna",
        "fastprof.views.python_calls:export_pstats",
    ),
    "html": Format(
        (".html", ".htm"),
        "a page to look at: timeline, flame graph, table, source",
        "fastprof.report.export:export_html",
        of_list=True,
    ),
    "csv": Format(
        (".csv",), "the events as a table", "fastprof.exporters.tabular:export_csv", of_list=True
    ),
    "memory": Format(
        (".memory.json", ".memory.csv", ".memory.html"),
        "memory over time",
        "fastprof.exporters.memory_timeline:export_memory_timeline",
    ),
}


def _imported(named: str) -> Any:
    module, attribute = named.split(":")
    return getattr(import_module(module), attribute)


def output(name: str) -> Any:
    """Import and return the function or class registered under a name of OUTPUTS."""
    return _imported(OUTPUTS[name])


def format_of(path: str | os.PathLike[str], given: str | None = None) -> str:
    """Return `given`, or else the format of the path's suffix (.gz may follow).

    Raises errors.ValueError for an unknown format or suffix.
    """
    if given is not None:
        if given not in FORMATS:
            known = ", ".join(FORMATS)
            raise errors.ValueError(
                f"unknown format {given!r}{suggestion(given, FORMATS, '.')} Use one of {known}."
            )
        return given
    name = os.path.basename(os.fsdecode(path)).removesuffix(".gz")
    suffixes = {suffix: kind for kind, each in FORMATS.items() for suffix in each.suffixes}
    found = [suffix for suffix in suffixes if name.endswith(suffix)]
    if found:
        return suffixes[max(found, key=len)]
    suffix = os.path.splitext(name)[1]
    close = suggestion(suffix, suffixes, ".") if suffix else "."
    raise errors.ValueError(
        f"unknown format of {path}{close} Use one of the suffixes {', '.join(suffixes)}, or name the"
        " format: --to FORMAT, in Python format=FORMAT."
    )


def export(
    path: str | os.PathLike[str], kind: str, table: Callable[[], Any], events: Callable[[], Any]
) -> None:
    """Write a file in one of FORMATS. table, events: return what its writer is called with."""
    chosen = FORMATS[kind]
    _imported(chosen.writer)(events() if chosen.of_list else table(), path)
