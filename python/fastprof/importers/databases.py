# SPDX-License-Identifier: Apache-2.0
"""SQLite databases of other profilers: detection of the profiler, and the public functions that read them."""

from __future__ import annotations

import os
from typing import BinaryIO

from fastprof.base import errors
from fastprof.formats.sqlite import SQLITE_MAGIC
from fastprof.importers.memory_budget import DEFAULT_MAX_MEMORY_BYTES
from fastprof.importers.nsys import is_nsys, read_nsys
from fastprof.importers.nvprof import is_nvprof, nvprof_ranges, read_nvprof
from fastprof.importers.source import DEFAULT_MAX_BYTES, Source
from fastprof.importers.sqlite_file import SqliteFile
from fastprof.model.table import EventTable

__all__ = ["load_nsys", "load_nvprof_ranges", "read_database"]


def read_database(source: Source) -> EventTable:
    """Return the events of a database of nvprof or Nsight Systems. Raises errors.FormatError for others."""
    with SqliteFile(source) as database:
        if is_nsys(database):
            return read_nsys(database)
        if is_nvprof(database):
            return read_nvprof(database)
    raise errors.FormatError(
        f"{source.path}: an SQLite database, but neither nvprof's (no StringTable with activities) nor an export of "
        "Nsight Systems (no StringIds with events). Export one by `nsys export --type sqlite REPORT.nsys-rep`."
    )


def _source(path: str | os.PathLike[str] | BinaryIO, max_memory_bytes: int) -> Source:
    source = Source(path, DEFAULT_MAX_BYTES, DEFAULT_MAX_BYTES, max_memory_bytes)
    try:
        head = source.read(len(SQLITE_MAGIC))
        source.rewind()
        if head != SQLITE_MAGIC:
            raise errors.FormatError(
                f"{source.path}: not an SQLite database. fastprof.load() reads traces of other formats."
            )
    except BaseException:
        source.__exit__(None, None, None)
        raise
    return source


def load_nsys(
    path: str | os.PathLike[str] | BinaryIO, *, max_memory_bytes: int = DEFAULT_MAX_MEMORY_BYTES
) -> EventTable:
    """Read an SQLite export of Nsight Systems (`nsys export --type sqlite REPORT.nsys-rep`).

    NVTX ranges and marks, calls of the CUDA and OS runtimes, kernels, copies and fills become rows, and device
    work is linked to the range that launched it. Kernels have their grid, block, registers and shared memory as args.
    GPU metrics and samples are not read.
    max_memory_bytes: limit of the memory used for reading (4 GiB).

    Raises errors.IoError if the file cannot be read and errors.FormatError if it is malformed.

        print(fastprof.load("report.sqlite").key_averages().table(sort_by="device_time_total"))

    Any thread.
    """
    with _source(path, max_memory_bytes) as source, SqliteFile(source) as database:
        return read_nsys(database)


def load_nvprof_ranges(
    path: str | os.PathLike[str] | BinaryIO, *, max_memory_bytes: int = DEFAULT_MAX_MEMORY_BYTES
) -> EventTable:
    """Return the ranges of a database of nvprof as nvprof_ranges() does; parameters and errors as load_nsys()."""
    with _source(path, max_memory_bytes) as source, SqliteFile(source) as database:
        return nvprof_ranges(database)
