# SPDX-License-Identifier: Apache-2.0
"""Options --html[=PATH] and --open of several subcommands: write the HTML report of a table, open it in a browser."""

from __future__ import annotations

import argparse
import os
from typing import Any

from fastprof.cli.outcome import print_message

__all__ = [
    "add_html_options",
    "free_path",
    "html_path",
    "open_report",
    "print_written",
    "write_report",
]


def add_html_options(parser: argparse.ArgumentParser, in_place: str = "") -> None:
    """Add --html[=PATH], --open and --no-source. in_place: more help of --html."""
    group = parser.add_argument_group("HTML report")
    group.add_argument(
        "--html",
        nargs="?",
        const="",
        metavar="PATH",
        help="also write a page to look at: timeline, flame graph, table, source (default: NAME.html, or "
        "NAME-2.html, ... beside earlier ones); --html=PATH names it" + in_place,
    )
    group.add_argument(
        "--open", action="store_true", help="open the report in a browser; implies --html"
    )
    group.add_argument(
        "--no-source",
        action="store_true",
        help="leave the text of source files out of the HTML report",
    )


def html_path(options: argparse.Namespace, trace: str) -> str | None:
    """Return the path of the report to write; None if no report is requested. Callers check it with check_outputs().

    trace: the trace's path, from which the default is made. Raises errors.ValueError for a suffix of other files.
    """
    if options.html is None and not options.open:
        return None
    from fastprof.report.export import check_html_path

    path = options.html or free_path(_beside(trace))
    check_html_path(path)
    return path


def free_path(path: str) -> str:
    """Return a path that was not asked for, or with "-2", "-3", ... before its suffix if the file exists."""
    stem, suffix = os.path.splitext(path)
    number = 1
    while os.path.isfile(path):
        number += 1
        path = f"{stem}-{number}{suffix}"
    return path


def _beside(trace: str) -> str:
    if trace == "-":
        return "report.html"
    name = os.path.basename(os.path.normpath(trace)).removesuffix(".gz")
    for suffix in (".json", ".trace", ".pt", ".pftrace", ".perfetto-trace", ".fastprof"):
        name = name.removesuffix(suffix) or name
    return f"{name}.html"


def write_report(table: Any, path: str, options: argparse.Namespace, notes: list[str]) -> None:
    """Write the report of a table that was read from a file. notes: lines in the report."""
    from fastprof.report.export import export_html

    # Metadata of the trace that describes the profiled machine; without it, the report would describe this one.
    members = ("host_name", "trace_id", "format")
    facts = {
        name: str(table.metadata[name])
        for name in members
        if isinstance(table.metadata.get(name), (str, int))
    }
    export_html(table, path, sources=not options.no_source, facts=facts, notes=tuple(notes))


def print_written(path: str, options: argparse.Namespace) -> None:
    """Print the path of a written report, and open it if --open is given."""
    print(f"wrote {path}")
    if options.open:
        open_report(path)


def open_report(path: str) -> None:
    """Open a file in the user's browser; print its path if there is none."""
    import webbrowser
    from pathlib import Path

    if not webbrowser.open(Path(path).resolve().as_uri()):
        print_message(f"fastprof: no browser found: open {path} in one")
