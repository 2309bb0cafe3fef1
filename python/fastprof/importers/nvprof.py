# SPDX-License-Identifier: Apache-2.0
"""nvprof's SQLite files: ranges of NVTX, calls of the CUDA runtime and kernels.

Tables are CUPTI's activity records, a column for each field (CUPTI documentation, "Activity API"): StringTable(_id_,
value), CUPTI_ACTIVITY_KIND_MARKER(id, name, timestamp, ...), _RUNTIME(cbid, start, end, correlationId, ...) and
_CONCURRENT_KERNEL or _KERNEL(start, end, name, correlationId, ...). Times are in ns.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from fastprof.base import errors
from fastprof.importers.distinct import distinct_rows
from fastprof.importers.launches import DeviceWork, HostRows, NameCodes, calls_of, launch_table
from fastprof.importers.sqlite_file import SqliteFile
from fastprof.model.sites import Site
from fastprof.model.table import EventKind, EventTable, KernelTable

__all__ = ["is_nvprof", "nvprof_ranges", "read_nvprof"]

Array: TypeAlias = NDArray[Any]

_MARKER = "CUPTI_ACTIVITY_KIND_MARKER"
_RUNTIME = "CUPTI_ACTIVITY_KIND_RUNTIME"
_KERNELS = ("CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL", "CUPTI_ACTIVITY_KIND_KERNEL")
# Callback ids of launches (cupti_runtime_cbid.h): cudaLaunchKernel since CUDA 7, cudaLaunch before.
_LAUNCHES = {211: "cudaLaunchKernel", 13: "cudaLaunch"}
_PAIR_BYTES = 40


class _Contents(NamedTuple):
    names: list[str]
    marker: Array  # (id, begin, end, name): ranges by begin
    mark: Array  # (time, name): markers that do not end
    lone_ends: int  # ends of markers that do not begin
    runtime: Sequence[Array]  # (cbid, start, end, correlation, pid, tid): launches
    kernel: Array  # (start, end, name, correlation, device, stream)


def is_nvprof(database: SqliteFile) -> bool:
    """Return whether a database has nvprof's tables."""
    return database.has("StringTable") and (
        database.has(_MARKER) or database.has(_RUNTIME) or any(map(database.has, _KERNELS))
    )


def _read(database: SqliteFile) -> _Contents:
    if not is_nvprof(database):
        raise errors.FormatError(
            f"{database.path}: not a database of nvprof: it has no StringTable with activities. Write one by "
            "`nvprof -o FILE`; fastprof.load() reads exports of Nsight Systems, too."
        )
    texts = database.strings("StringTable", "_id_", "value")
    names = NameCodes(texts)
    runtime = database.integers(
        _RUNTIME,
        ("cbid", "start", "end", "correlationId"),
        ("processId", "threadId"),
        only=("cbid", tuple(_LAUNCHES)),
    )
    kernels = [
        database.integers(
            table, ("start", "end", "name", "correlationId"), ("deviceId", "streamId")
        )
        for table in _KERNELS
    ]
    kernel: Array = np.concatenate(kernels, axis=1)
    kernel[2] = names.codes(kernel[2])
    marker, mark, lone_ends = _ranges(database)
    marker[3], mark[1] = names.codes(marker[3]), names.codes(mark[1])
    return _Contents(names.texts, marker, mark, lone_ends, runtime, kernel)


def _ranges(database: SqliteFile) -> tuple[Array, Array, int]:
    """Return (id, begin, end, name) of ranges by begin, (time, name) of marks, and the number of ends without a begin.

    A range is two markers with one id, the second of which has no name; a mark is one marker. Raises
    errors.FormatError for an id with more than one begin or end.
    """
    number, name, time = database.integers(_MARKER, ("id", "name", "timestamp"))
    begin, end = np.flatnonzero(name != 0), np.flatnonzero(name == 0)
    for rows, what in ((begin, "begins"), (end, "ends")):
        ids, counts = np.unique(number[rows], return_counts=True)
        if bool((counts > 1).any()):
            raise errors.FormatError(
                f"{database.path}: the marker {int(ids[np.argmax(counts > 1)])} {what} twice in the table {_MARKER}"
            )
    _, first, second = np.intersect1d(number[begin], number[end], return_indices=True)
    marks = np.setdiff1d(np.arange(len(begin)), first)
    lone_ends = len(end) - len(second)
    at, till = begin[first], end[second]
    ranges = np.stack([number[at], time[at], time[till], name[at]])
    mark = np.stack([time[begin[marks]], name[begin[marks]]])
    return ranges[:, np.lexsort((-ranges[2], ranges[1]))], mark, lone_ends


def read_nvprof(database: SqliteFile) -> EventTable:
    """Return ranges, launches and kernels as a table. Raises errors.FormatError for a malformed file.

    Most files contain no thread of a marker: ranges are on the thread of the launches if all launches are on one
    thread, else on a track of their own.
    """
    contents = _read(database)
    _, begin, end, name = contents.marker
    cbid, start, stop, correlation, pid, tid = contents.runtime
    places, _ = distinct_rows(contents.runtime[4:6])
    process, thread = places[0].tolist() if len(places) == 1 else (0, 0)
    ranges = _host_rows("user_annotation", begin, end, name, contents.names, process, thread)
    time, mark = contents.mark
    marks = _host_rows("mark", time, time, mark, contents.names, process, thread)
    launches = HostRows(
        "cuda_runtime", start, stop, (cbid == 13).astype(np.int64), list(_LAUNCHES.values()), pid, tid, correlation
    )  # fmt: skip
    kernel = contents.kernel
    call = calls_of(correlation, pid * 0, kernel[3], kernel[3] * 0)
    kernel_pid = np.where(call >= 0, pid[call] if len(pid) else 0, process)
    work = DeviceWork(
        "kernel", kernel[0], kernel[1], kernel[2], contents.names, kernel_pid, kernel[4], kernel[5], kernel[3]
    )  # fmt: skip
    try:
        return launch_table(
            [ranges, marks._replace(kind=int(EventKind.MARK)), launches],
            [work],
            pid=process,
            metadata=_metadata(contents),
        )
    except errors.FormatError as error:
        raise errors.FormatError(f"{database.path}: {error}") from None


def _host_rows(
    category: str, begin: Array, end: Array, name: Array, names: list[str], pid: int, tid: int
) -> HostRows:
    none = np.zeros(len(begin), np.int64)
    return HostRows(category, begin, end, name, names, none + pid, none + tid, none)


def _metadata(contents: _Contents) -> dict[str, Any]:
    skipped = (
        {"end of a marker without its begin": contents.lone_ends} if contents.lone_ends else {}
    )
    return {"format": "nvprof", "skipped_events": skipped}


def nvprof_ranges(database: SqliteFile) -> EventTable:
    """Return only the ranges, each with the kernels whose launch lies strictly inside of it, in PyTorch's form.

    All are on thread 0 of process 0, by begin; `id` is the marker's. A kernel counts for every range around its
    launch (is_legacy). Raises errors.FormatError for a malformed file, and for two launches with the same
    correlation id in one range.
    """
    contents = _read(database)
    number, begin, end, name = contents.marker
    _, start, stop, correlation = contents.runtime[:4]
    kernel = contents.kernel
    if bool((end < begin).any()):
        raise errors.FormatError(f"{database.path}: a range ends before it begins")
    # The launches that begin inside of a range are consecutive among the launches by begin.
    order = np.argsort(start, kind="stable")
    start, stop, correlation = start[order], stop[order], correlation[order]
    first = np.searchsorted(start, begin, "right")
    count = np.maximum(np.searchsorted(start, end, "left") - first, 0)
    database.check_memory(int(count.sum()) * _PAIR_BYTES)
    range_of = np.repeat(np.arange(len(begin)), count)
    launch = np.arange(len(range_of)) - np.repeat(np.cumsum(count) - count, count)
    launch += np.repeat(first, count)
    inside = stop[launch] < end[range_of]
    range_of, launch = range_of[inside], launch[inside]
    # Kernels by correlation id; a launch may have none or several (graphs).
    by_id = np.argsort(kernel[3], kind="stable")
    ids = kernel[3][by_id]
    low = np.searchsorted(ids, correlation[launch], "left")
    many = np.searchsorted(ids, correlation[launch], "right") - low
    database.check_memory(int(many.sum()) * _PAIR_BYTES)
    _require_distinct_ids(database, range_of, correlation[launch], number)
    row = np.repeat(range_of, many)
    at = np.arange(len(row)) - np.repeat(np.cumsum(many) - many, many) + np.repeat(low, many)
    chosen = by_id[at]
    duration = kernel[1] - kernel[0]
    kernels = KernelTable.sorted(
        row, kernel[2][chosen].astype(np.int32), kernel[4][chosen].astype(np.int32), duration[chosen], contents.names
    )  # fmt: skip
    size = len(begin)
    return EventTable(
        {
            "start_ns": begin,
            "end_ns": end,
            "site": name,
            "id": number,
            "is_legacy": np.ones(size, np.bool_),
            "node_id": np.zeros(size, np.int32),
        },
        sites=[Site(text) for text in contents.names],
        kernels=kernels if len(row) else None,
        metadata=_metadata(contents),
    )


def _require_distinct_ids(
    database: SqliteFile, range_of: Array, correlation: Array, number: Array
) -> None:
    order = np.lexsort((correlation, range_of))
    twice = (np.diff(range_of[order]) == 0) & (np.diff(correlation[order]) == 0)
    if bool(twice.any()):
        at = order[int(np.argmax(twice))]
        raise errors.FormatError(
            f"{database.path}: the range of marker {int(number[range_of[at]])} contains two launches "
            f"with the correlation id {int(correlation[at])}"
        )
