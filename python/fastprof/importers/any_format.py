# SPDX-License-Identifier: Apache-2.0
"""load: the table of a trace file, whatever its format; chosen by content, not by name."""

from __future__ import annotations

import os
from typing import BinaryIO

from fastprof.base import errors
from fastprof.formats.native_file import MAGIC
from fastprof.importers.check_table import check_indices
from fastprof.importers.check_values import check_values
from fastprof.importers.memory_budget import DEFAULT_MAX_MEMORY_BYTES
from fastprof.importers.source import DEFAULT_MAX_BYTES, Source
from fastprof.model.table import EventTable

__all__ = ["load", "trace_format"]

FORMATS = ("native", "chrome", "perfetto")


def load(
    path: str | os.PathLike[str] | BinaryIO,
    *,
    max_bytes: int = DEFAULT_MAX_BYTES,
    max_decompressed_bytes: int = DEFAULT_MAX_BYTES,
    max_memory_bytes: int = DEFAULT_MAX_MEMORY_BYTES,
    mmap: bool = False,
) -> EventTable:
    """Read a trace: fastprof's own (save), Chrome/Kineto JSON, or Perfetto as fastprof writes it.

    path: of a file, or a binary file object open for reading, such as sys.stdin.buffer; its
    content decides the format, and each may be gzipped. EventList.from_table(load(path)) answers
    what a profile does. metadata["format"] says what it was; JSON traces keep their top level in
    metadata too. mmap: leave the columns of a fastprof file on disk until they are read.

    Files are untrusted: nothing in them is run. max_bytes (16 GB) limits the file,
    max_decompressed_bytes (16 GB) what is read of a gzipped one, and max_memory_bytes (4 GiB) the
    memory that reading takes, by an estimate from above. Raises errors.IoError when the file cannot
    be read and errors.FormatError naming the place when it is malformed or exceeds a limit.
    """
    with Source(path, max_bytes, max_decompressed_bytes, max_memory_bytes) as source:
        try:
            return _read(source, mmap)
        except MemoryError:
            raise errors.FormatError(
                f"{source.path}: reading it takes more memory than there is"
            ) from None
        except RecursionError:
            raise errors.FormatError(f"{source.path}: values are nested too deeply") from None


def _read(source: Source, mmap: bool) -> EventTable:
    kind = trace_format(source)
    if kind == "native":
        from fastprof.importers.native_file import read_native_file

        return read_native_file(source, mmap=mmap)
    if kind == "chrome":
        from fastprof.importers.chrome_trace import read_chrome_trace

        table = read_chrome_trace(source)
    else:
        from fastprof.importers.perfetto_trace import read_perfetto_trace

        table = read_perfetto_trace(source)
    check_indices(table, source.path)
    check_values(table, source.path)
    return table


def trace_format(source: Source) -> str:
    """One of FORMATS, by the first bytes; the source is at its beginning before and after."""
    head = source.read(4096)
    source.rewind()
    if head.startswith(MAGIC):
        return "native"
    text = head.removeprefix(b"\xef\xbb\xbf").lstrip()
    if text[:1] in (b"{", b"["):
        return "chrome"
    if head[:1] == b"\x0a":  # field 1 (packet) of a Perfetto trace, length-delimited
        return "perfetto"
    if not head:
        raise errors.FormatError(f"{source.path}: the file is empty")
    raise errors.FormatError(
        f"{source.path}: offset 0: unrecognised file format; known are Chrome/Kineto JSON, Perfetto "
        "as fastprof writes it, and fastprof's own"
    )
