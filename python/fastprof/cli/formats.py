# SPDX-License-Identifier: Apache-2.0
"""Output formats of the commands: what their help says, and how a table is written with progress and warnings shown."""

from __future__ import annotations

import argparse
import os
import sys
import warnings
from contextlib import suppress
from typing import TYPE_CHECKING

from fastprof._outputs import FORMATS, format_of
from fastprof.base import errors

if TYPE_CHECKING:
    from fastprof.model.table import EventTable

__all__ = [
    "FORMATS",
    "add_format_option",
    "add_outputs_option",
    "check_memory_path",
    "default_trace",
    "format_help",
    "format_of",
    "write_table",
]


def add_format_option(parser: argparse.ArgumentParser) -> None:
    """Add --to, the format of the output OUT, to the parser of a command."""
    parser.add_argument(
        "--to",
        choices=tuple(FORMATS),
        metavar="FORMAT",
        help="output format (default: by the suffix of OUT)",
    )


def add_outputs_option(parser: argparse.ArgumentParser, what: str) -> None:
    """Add -o, which may be given several times, and --to, the format of all of them. what: its help."""
    parser.add_argument(
        "-o",
        "--output",
        action="append",
        default=[],
        metavar="PATH",
        help=f"{what}; may be given several times",
    )
    parser.add_argument(
        "--to", choices=tuple(FORMATS), metavar="FORMAT", help="their format, whatever the suffix"
    )


def check_memory_path(path: str) -> None:
    """Raise errors.ValueError if memory over time cannot be written with the suffix of `path`."""
    if os.path.splitext(path.removesuffix(".gz"))[1] not in (".json", ".csv", ".html"):
        raise errors.ValueError(
            f"cannot write memory over time to {path}: unknown suffix. Use .json, .csv or .html."
        )


def default_trace(stem: str, kind: str | None) -> str:
    """Return the name of a trace that is given none. kind: one of FORMATS, or None: the default."""
    return stem + (".trace.json" if kind in (None, "chrome") else FORMATS[str(kind)].suffixes[0])


def write_table(table: EventTable, path: str, kind: str) -> None:
    """Write a table in one of FORMATS; show a progress bar on a terminal, and warnings as lines.

    Raises errors.IoError if the file cannot be written, and errors.Error if the format cannot represent the table.
    """
    from fastprof.exporters.native_file import save
    from fastprof.exporters.progress import terminal_progress

    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always", UserWarning)
        with terminal_progress(f"writing {path}") as progress:
            if kind == "native":
                save(table, path, progress=progress)
            else:
                table.export(path, kind)
    for warning in found:
        with suppress(OSError, ValueError):  # the program has closed it
            print(f"fastprof: {warning.message}", file=sys.stderr)


def format_help() -> str:
    """Return the list of formats for a parser's epilog."""
    suffixes = {kind: " ".join(each.suffixes) for kind, each in FORMATS.items()}
    width = max(map(len, suffixes.values()))
    lines = ["formats and their suffixes (add .gz to compress):"]
    for kind, each in FORMATS.items():
        lines.append(f"  {kind:<11}{suffixes[kind]:<{width}} {each.description}")
    return "\n".join(lines) + "\n"
