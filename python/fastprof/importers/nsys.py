# SPDX-License-Identifier: Apache-2.0
"""SQLite exports of Nsight Systems: NVTX, calls of CUDA and of the OS runtime, kernels, copies and fills.

Tables and columns: "SQLite Schema Reference" of the Nsight Systems documentation; those that a version lacks are
left out. Times are in ns since the begin of the session, which TARGET_INFO_SESSION_START_TIME contains. A globalTid
contains the process in bits 24 to 47 and the thread in bits 0 to 23.
"""

from __future__ import annotations

import json
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from fastprof.base import errors
from fastprof.importers.distinct import distinct_rows, distinct_values
from fastprof.importers.launches import DeviceWork, HostRows, NameCodes, launch_table
from fastprof.importers.sqlite_file import SqliteFile
from fastprof.model.table import CodedColumn, EventKind, EventTable

__all__ = ["is_nsys", "read_nsys"]

Array: TypeAlias = NDArray[Any]

# NVTX_EVENTS.eventType: marks, push/pop ranges, start/end ranges. Other types name threads, categories, domains.
_MARK, _PUSH_POP, _START_END = 34, 59, 60
_CALLS = (  # table, category
    ("CUPTI_ACTIVITY_KIND_RUNTIME", "cuda_runtime"),
    ("OSRT_API", "os_runtime"),
)
_COPY_KINDS = {
    0: "Memcpy Unknown",
    1: "Memcpy HtoD",
    2: "Memcpy DtoH",
    3: "Memcpy HtoA",
    4: "Memcpy AtoH",
    5: "Memcpy AtoA",
    6: "Memcpy AtoD",
    7: "Memcpy DtoA",
    8: "Memcpy DtoD",
    9: "Memcpy HtoH",
    10: "Memcpy PtoP",
}  # CUpti_ActivityMemcpyKind
# Args of kernels, with Kineto's names -> columns: three columns make a list, one or two are added up.
_KERNEL_ARGS = {
    "grid": ("gridX", "gridY", "gridZ"),
    "block": ("blockX", "blockY", "blockZ"),
    "registers per thread": ("registersPerThread",),
    "shared memory": ("staticSharedMemory", "dynamicSharedMemory"),
}
_TABLES = (
    "NVTX_EVENTS",
    "CUPTI_ACTIVITY_KIND_RUNTIME",
    "CUPTI_ACTIVITY_KIND_KERNEL",
    "CUPTI_ACTIVITY_KIND_MEMCPY",
    "CUPTI_ACTIVITY_KIND_MEMSET",
    "OSRT_API",
)


def is_nsys(database: SqliteFile) -> bool:
    """Return whether a database has the tables of an export of Nsight Systems."""
    return database.has("StringIds") and (
        any(map(database.has, _TABLES)) or database.has("TARGET_INFO_SESSION_START_TIME")
    )


def read_nsys(database: SqliteFile) -> EventTable:
    """Return the file's events. Ranges that were open when the session ended, end at its last event.

    metadata["skipped_events"] counts the records that were left out. Raises errors.FormatError for a malformed
    file.
    """
    if not is_nsys(database):
        raise errors.FormatError(
            f"{database.path}: not an export of Nsight Systems: it has no StringIds with events. Write one by "
            "`nsys export --type sqlite REPORT.nsys-rep`."
        )
    names = NameCodes(database.strings("StringIds", "id", "value"))
    t0 = _session_start(database)
    host = [
        _calls(database, names, table, category)
        for table, category in _CALLS
        if database.has(table)
    ]
    work = [
        *_kernels(database, names),
        *_copies_or_fills(database, names, "MEMCPY"),
        *_copies_or_fills(database, names, "MEMSET"),
    ]
    ends = [*(r.end_ns for r in host), *(w.end_ns for w in work)]
    last = max((int(end.max()) for end in ends if len(end)), default=0)
    skipped: dict[str, int] = {}
    host = [*_nvtx(database, names, last, skipped), *host]
    host = [
        r._replace(start_ns=r.start_ns + t0, end_ns=r.end_ns + t0, names=names.texts) for r in host
    ]
    work = [
        w._replace(start_ns=w.start_ns + t0, end_ns=w.end_ns + t0, names=names.texts) for w in work
    ]
    pids = distinct_values(np.concatenate([r.pid for r in host] or [np.zeros(0, np.int64)]))[0]
    try:
        return launch_table(
            host,
            work,
            t0_ns=t0,
            pid=int(pids[0]) if len(pids) == 1 else 0,
            metadata={"format": "nsys", "skipped_events": skipped},
        )
    except errors.FormatError as error:
        raise errors.FormatError(f"{database.path}: {error}") from None


def _session_start(database: SqliteFile) -> int:
    table, column = "TARGET_INFO_SESSION_START_TIME", "utcEpochNs"
    if column not in database.columns(table):
        return 0
    found = database.integers(table, (), (column,))[0]
    return int(found[0]) if len(found) and 0 < found[0] < 1 << 62 else 0


def _pid_and_tid(global_tid: Array) -> tuple[Array, Array]:
    return global_tid >> 24 & 0xFFFFFF, global_tid & 0xFFFFFF


def _nvtx(
    database: SqliteFile, names: NameCodes, last: int, skipped: dict[str, int]
) -> list[HostRows]:
    table = "NVTX_EVENTS"
    if not database.has(table):
        return []
    start, kind, tid, end, text_id = database.integers(
        table, ("start", "eventType", "globalTid"), ("end", "textId"), absent=-1
    )
    # The text is in the row itself, or in StringIds.
    name = np.full(len(start), names.code(""), np.int64)
    has_id = text_id >= 0
    name[has_id] = names.codes(text_id[has_id])
    given = database.distinct_texts(table, "text")
    if given is not None:
        own = np.array([names.code(text) for text in given.values], np.int64)
        has_text = given.codes >= 0
        name[has_text] = own[given.codes[has_text]]
    is_range = (kind == _PUSH_POP) | (kind == _START_END)
    is_mark = kind == _MARK
    if others := int(len(kind) - is_range.sum() - is_mark.sum()):
        skipped["NVTX name or payload record"] = others
    end = np.where(end < 0, np.maximum(last, start), end)
    found = []
    for chosen, event_kind, category in (
        (kind == _PUSH_POP, EventKind.RANGE, "user_annotation"),
        (kind == _START_END, EventKind.ASYNC_RANGE, "user_annotation"),
        (is_mark, EventKind.MARK, "user_annotation"),
    ):
        rows = np.flatnonzero(chosen)
        if not len(rows):
            continue
        pid, thread = _pid_and_tid(tid[rows])
        found.append(
            HostRows(
                category,
                start[rows],
                start[rows] if event_kind == EventKind.MARK else end[rows],
                name[rows],
                [],
                pid,
                thread,
                np.zeros(len(rows), np.int64),
                int(event_kind),
            )
        )
    return found


def _calls(database: SqliteFile, names: NameCodes, table: str, category: str) -> HostRows:
    start, end, tid, name, correlation = database.integers(
        table, ("start", "end", "globalTid", "nameId"), ("correlationId",)
    )
    if category != "cuda_runtime":
        correlation = np.zeros(len(start), np.int64)
    return HostRows(category, start, end, names.codes(name), [], *_pid_and_tid(tid), correlation)


def _kernels(database: SqliteFile, names: NameCodes) -> list[DeviceWork]:
    table = "CUPTI_ACTIVITY_KIND_KERNEL"
    if not database.has(table):
        return []
    known = database.columns(table)
    name_column = next(
        (c for c in ("demangledName", "shortName", "mangledName") if c in known), "demangledName"
    )
    details = [column for columns in _KERNEL_ARGS.values() for column in columns]
    start, end, name, correlation, device, stream, pid, *numbers = database.integers(
        table,
        ("start", "end", name_column, "correlationId"),
        ("deviceId", "streamId", "globalPid", *details),
    )
    args = _kernel_args(dict(zip(details, numbers, strict=True)), known)
    return [
        DeviceWork(
            "kernel", start, end, names.codes(name), [], pid >> 24 & 0xFFFFFF, device, stream, correlation, args
        )
    ]  # fmt: skip


def _kernel_args(numbers: dict[str, Array], known: frozenset[str]) -> CodedColumn | None:
    """Return the args of kernels as JSON, with Kineto's names."""
    parts = {arg: columns for arg, columns in _KERNEL_ARGS.items() if known.issuperset(columns)}
    used = [column for columns in parts.values() for column in columns]
    if not used:
        return None
    distinct, codes = distinct_rows([numbers[column] for column in used])
    texts = []
    for row in distinct.tolist():
        value = dict(zip(used, row, strict=True))
        args: dict[str, Any] = {}
        for arg, columns in parts.items():
            found = [value[column] for column in columns]
            args[arg] = found if len(found) == 3 else sum(found)
        texts.append(json.dumps(args))
    return CodedColumn(codes.astype(np.int32), tuple(texts))


def _copies_or_fills(database: SqliteFile, names: NameCodes, what: str) -> list[DeviceWork]:
    table = f"CUPTI_ACTIVITY_KIND_{what}"
    if not database.has(table):
        return []
    start, end, correlation, kind, device, stream, pid, size = database.integers(
        table,
        ("start", "end", "correlationId"),
        ("copyKind", "deviceId", "streamId", "globalPid", "bytes"),
    )
    if what == "MEMSET":
        category = "gpu_memset"
        name: Array = np.full(len(start), names.code("Memset (Device)"), np.int64)
    else:
        distinct, codes = distinct_values(kind)
        texts = [_COPY_KINDS.get(k, f"Memcpy kind {k}") for k in distinct.tolist()]
        name = np.array([names.code(text) for text in texts], np.int64)[codes]
        category = "gpu_memcpy"
    sizes, of_row = distinct_values(size)
    args = CodedColumn(
        of_row.astype(np.int32), tuple(f'{{"bytes": {number}}}' for number in sizes.tolist())
    )
    return [
        DeviceWork(
            category, start, end, name, [], pid >> 24 & 0xFFFFFF, device, stream, correlation, args
        )
    ]
