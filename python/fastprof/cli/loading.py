# SPDX-License-Identifier: Apache-2.0
"""Load the traces that a command names, of any format that fastprof reads."""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from collections.abc import Sequence
from typing import Any

from fastprof.base.formatting import counted

__all__ = ["load_trace", "load_traces"]


def load_traces(paths: Sequence[str], options: argparse.Namespace) -> Any:
    """Return the table of a trace, or of several on one timeline. Raises the exceptions of load_trace()."""
    from fastprof.model.merge import merge_tables

    tables = [load_trace(path, options) for path in paths]
    if len(tables) == 1:
        return tables[0]
    return merge_tables([_of_file(table, options) for table in tables], paths)


def _of_file(table: Any, options: argparse.Namespace) -> Any:
    """Return a table whose arguments are columns: tables of recordings are written as Chrome traces and read again."""
    if not len(table.strings):
        return table
    from fastprof.exporters.trace_writers import write_chrome_trace

    with tempfile.TemporaryDirectory(prefix="fastprof-") as folder:
        path = os.path.join(folder, "trace.json")
        write_chrome_trace(table, path)
        return load_trace(path, options)


def load_trace(path: str, options: argparse.Namespace) -> Any:
    """Return the table of a trace file; "-" is standard input. Prints to stderr what --salvage could not read.

    Raises errors.IoError for a file that cannot be read, errors.FormatError for one that is malformed or too large.
    """
    from fastprof.importers import load
    from fastprof.importers.memory_budget import DEFAULT_MAX_MEMORY_BYTES

    if _is_backing_file(path):
        from fastprof.flight_recorder.dumps import read_dump

        return read_dump(path)
    if os.path.isdir(path):
        # What the processes of a killed profile have left, or an error that says what it lacks.
        from fastprof import recover

        return recover(path)
    source: Any = sys.stdin.buffer if path == "-" else path
    limit = options.max_memory_mb << 20 or DEFAULT_MAX_MEMORY_BYTES
    table = load(source, max_memory_bytes=limit, salvage=options.salvage)
    damage = table.metadata.get("damage") if options.salvage else None
    if damage:
        print(
            f"fastprof: damaged: {damage}. Read the {counted(len(table), 'event')} before it.",
            file=sys.stderr,
        )
    return table


def _is_backing_file(path: str) -> bool:
    from fastprof.formats.backing_file import BACKING_MAGIC

    try:
        with open(path, "rb") as file:
            return file.read(len(BACKING_MAGIC)) == BACKING_MAGIC
    except OSError:
        return False
