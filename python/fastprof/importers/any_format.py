# SPDX-License-Identifier: Apache-2.0
"""load: read a trace file of any known format, detected from its content, not from its name."""

from __future__ import annotations

import os
import re
from typing import BinaryIO

from fastprof.base import errors
from fastprof.base.formatting import counted
from fastprof.formats.backing_file import BACKING_MAGIC
from fastprof.formats.native_file import MAGIC
from fastprof.formats.sqlite import SQLITE_MAGIC
from fastprof.importers.check_table import check_indices
from fastprof.importers.check_values import check_values
from fastprof.importers.memory_budget import DEFAULT_MAX_MEMORY_BYTES, LimitError
from fastprof.importers.op_inputs import with_op_inputs
from fastprof.importers.sampled import SAMPLED_FORMATS, read_sampled, sampled_format
from fastprof.importers.source import DEFAULT_MAX_BYTES, Source
from fastprof.model.table import EventTable

__all__ = ["load", "trace_format"]

FORMATS = ("native", "chrome", "perfetto", "sqlite", *SAMPLED_FORMATS)

_SCRIPT = "a Python script, not a trace: run it by `fastprof run`, and load the trace"
_NO_TRACE = (
    "a table for other programs, not a trace. Write the profile as .fastprof, too, and load that"
)
# A dict of tuples of marshal. It may begin with a brace, but what follows is no JSON.
_STATISTICS = rb"[\xfb{][\xa9\xe9()]"
# What files that cannot be read are, by their first bytes.
_OTHERS = tuple(
    (re.compile(pattern, re.DOTALL), what)
    for pattern, what in (
        (rb".{0,2000}<title>[^<]*fastprof", "fastprof's HTML report: open it in a browser"),
        (rb"(?i:\s*<!DOCTYPE html|\s*<html)", "a page of HTML, not a trace: open it in a browser"),
        (
            rb"(?:<\?xml[^>]*>\s*)?(?:<!DOCTYPE svg[^>]*>\s*)?<svg",
            "a picture (SVG), not a trace: open it in a browser",
        ),
        (
            rb"PK\x03\x04.{26}facts\.npy",
            "fastprof's file of aggregates, which has no events: print it with `fastprof report`",
        ),
        (rb"PK\x03\x04", "a zip archive: unpack it, and load the traces in it"),
        (rb"PERFILE2", "perf's data: load what `perf script` prints"),
        (
            _STATISTICS,
            "statistics of cProfile, or fastprof's .pstats, which have no times: print them with `python -m pstats`",
        ),
        (rb"name,count,", f"fastprof's table of events or averages (CSV): {_NO_TRACE}"),
        (rb"device,time_us,bytes,", f"fastprof's memory over time (CSV): {_NO_TRACE}"),
        (
            rb"(?:\x04\x22M\x18.{0,40})?memray",  # in an LZ4 frame, by default
            "memray's file: convert it with `memray transform speedscope`",
        ),
        (rb"\x7fELF", "a program or library, not a trace"),
        (rb"#!.{0,100}\bpython", _SCRIPT),
    )
)
# Of JSON objects.
_OTHER_OBJECTS = tuple(
    (re.compile(pattern, re.DOTALL), what)
    for pattern, what in (
        (
            rb'.{0,2000}"schema"\s*:\s*"[^"]*chakra|.{0,4000}"nodes"\s*:\s*\[.{0,1000}"ctrl_deps"',
            "an execution trace (Chakra): it has the graph of the ops, and no times. Load the profile's own trace",
        ),
        (
            rb'\s*\{\s*"(?:start_time|session)"\s*:.{0,4000}"(?:root_frame|frame_records)"\s*:',
            "pyinstrument's JSON: write the session with `pyinstrument --renderer speedscope`",
        ),
        (rb'\{"unit": "bytes", "t0_ns": ', f"fastprof's memory over time (JSON): {_NO_TRACE}"),
        (
            rb'\s*\{\s*"version"\s*:\s*\d+\s*,\s*"costs"\s*:',
            "JSON for gprof2dot: from memray's file, write it with `memray transform speedscope`",
        ),
        (
            rb'\s*\{"type":"meta","v":\d+,"run_id"',
            "JSON lines of Python's profiling.sampling, which have no stacks: record with --gecko or --binary",
        ),
    )
)
_CONTROL = re.compile(rb"[\x00-\x08\x0b\x0c\x0e-\x1f]")


def load(
    path: str | os.PathLike[str] | BinaryIO,
    *,
    max_bytes: int = DEFAULT_MAX_BYTES,
    max_decompressed_bytes: int = DEFAULT_MAX_BYTES,
    max_memory_bytes: int = DEFAULT_MAX_MEMORY_BYTES,
    mmap: bool = False,
    salvage: bool = False,
) -> EventTable:
    """Read a trace file of any known format, which is detected from the content; each may be gzipped.

    Formats: fastprof's own, Chrome/Kineto JSON, Perfetto track events, SQLite databases of nvprof and of Nsight
    Systems (load_nsys()), and sampled stacks: V8's .cpuprofile, speedscope, Firefox's profiler, pprof, text of
    `perf script`, collapsed text, austin's MOJO, Python's profiling.sampling, traces of the JS Self-Profiling API,
    Hatchet's JSON (Triton's Proton), also as MessagePack.
    Of sampled stacks, each frame is a row for as long as samples have it: times are estimates, and rows are not calls.

    path: a path, or a binary file object open for reading, such as sys.stdin.buffer.
    max_bytes: limit of the file's size (16 GB). max_decompressed_bytes: limit of the bytes read from
    a gzipped file (16 GB). max_memory_bytes: limit of the memory used for reading, by an upper
    estimate (4 GiB).
    mmap: leave the columns of a fastprof file on disk until they are accessed.
    salvage: return all events that precede the damage of a damaged Chrome or Perfetto trace;
    metadata["damage"] is then the error's message. A file without damage is read as usual.

    Returns an EventTable with the methods of a profile: events(), key_averages(), table(), export().
    metadata["format"] is the format; metadata["skipped_events"] and ["skipped_packets"] count by kind
    the events and packets that were not read; metadata also contains the top-level members of JSON traces.

    Raises errors.IoError if the file cannot be read and errors.FormatError, naming the place, if it is
    malformed or exceeds a limit. Nothing in the file is executed.

        trace = fastprof.load("trace.json.gz")
        print(trace.key_averages().table(row_limit=10))
        trace.export("trace.pftrace")

    Any thread.
    """
    try:
        return _load(
            path, (max_bytes, max_decompressed_bytes, max_memory_bytes), mmap=mmap, salvage=salvage
        )
    except LimitError:
        raise
    except errors.FormatError as error:
        if salvage or not isinstance(path, (str, os.PathLike)):
            raise
        limits = (max_bytes, max_decompressed_bytes, max_memory_bytes)
        raise errors.FormatError(_with_salvage(str(error), path, limits)) from None


def _with_salvage(problem: str, path: str | os.PathLike[str], limits: tuple[int, int, int]) -> str:
    """Return an error's text, with what of a damaged file can be read, and how."""
    try:
        table = _load(path, limits, mmap=False, salvage=True)
    except (errors.FormatError, errors.IoError):
        return problem
    if not len(table) or not table.metadata.get("damage"):
        return problem
    events = counted(len(table), "event")
    return f"{problem}. Read the {events} before it with salvage=True (--salvage of the commands)."


def _load(
    path: str | os.PathLike[str] | BinaryIO,
    limits: tuple[int, int, int],
    *,
    mmap: bool,
    salvage: bool,
) -> EventTable:
    with Source(path, *limits, salvage) as source:
        try:
            return _read(source, mmap, salvage)
        except MemoryError:
            raise errors.FormatError(f"{source.path}: not enough memory to read the file") from None
        except RecursionError:
            raise errors.FormatError(f"{source.path}: values are nested too deeply") from None


def _read(source: Source, mmap: bool, salvage: bool) -> EventTable:
    kind = trace_format(source)
    if kind in SAMPLED_FORMATS:
        return read_sampled(source, kind)
    if kind == "native":
        from fastprof.importers.native_file import read_native_file

        return read_native_file(source, mmap=mmap)
    if kind == "sqlite":
        from fastprof.importers.databases import read_database

        return read_database(source)
    if kind == "chrome":
        from fastprof.importers.chrome_trace import read_chrome_trace

        table = read_chrome_trace(source, salvage=salvage)
    else:
        from fastprof.importers.perfetto_trace import read_perfetto_trace

        table = read_perfetto_trace(source, salvage=salvage)
    check_indices(table, source.path)
    check_values(table, source.path)
    return with_op_inputs(table)


def trace_format(source: Source) -> str:
    """Return one of FORMATS, by the first bytes. The source is at its beginning before and after."""
    head = source.read(4096)
    source.rewind()
    if head.startswith(MAGIC):
        return "native"
    if head.startswith(SQLITE_MAGIC):
        return "sqlite"
    for pattern, what in _OTHER_OBJECTS:
        if pattern.match(head) and b'"traceEvents"' not in head:
            raise errors.FormatError(f"{source.path}: {what}")
    sampled = sampled_format(head)
    if sampled is not None:
        return sampled
    text = head.removeprefix(b"\xef\xbb\xbf").lstrip()
    # A first packet of 91 or 123 bytes begins like JSON after a newline, but JSON has no control characters.
    is_packet = head[:1] == b"\x0a" and _CONTROL.search(head) is not None
    if text[:1] in (b"{", b"[") and not is_packet and not re.match(_STATISTICS, head):
        return "chrome"
    if head[:1] == b"\x0a":  # field 1 (packet) of a Perfetto trace, length-delimited
        return "perfetto"
    if head.startswith(BACKING_MAGIC):
        raise errors.FormatError(
            f"{source.path}: the backing file of a profile: read it with fastprof.recover(), or "
            "`fastprof recover`"
        )
    if not head:
        raise errors.FormatError(f"{source.path}: the file is empty")
    for pattern, what in _OTHERS:
        if pattern.match(head):
            raise errors.FormatError(f"{source.path}: {what}")
    if source.path.endswith((".py", ".pyw")):
        raise errors.FormatError(f"{source.path}: {_SCRIPT}")
    raise errors.FormatError(
        f"{source.path}: offset 0: unrecognised file format. Known formats are Chrome/Kineto JSON, "
        "Perfetto, SQLite of nvprof and Nsight Systems, .cpuprofile, speedscope, Firefox's profiler, pprof, "
        "`perf script`, collapsed stacks, and fastprof's own."
    )
