# SPDX-License-Identifier: Apache-2.0
"""Small databases as nvprof and Nsight Systems write them, for tests and benchmarks."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

_NVPROF = """
CREATE TABLE StringTable(_id_ INTEGER PRIMARY KEY AUTOINCREMENT, value TEXT NOT NULL UNIQUE);
CREATE TABLE CUPTI_ACTIVITY_KIND_MARKER(_id_ INTEGER PRIMARY KEY, flags INT, timestamp INT, id INT, name INT);
CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME(_id_ INTEGER PRIMARY KEY, cbid INT, start INT, end INT,
    processId INT, threadId INT, correlationId INT, returnValue INT);
CREATE TABLE CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL(_id_ INTEGER PRIMARY KEY, start INT, end INT, deviceId INT,
    streamId INT, correlationId INT, name INT);
"""
_NSYS = """
CREATE TABLE StringIds(id INTEGER PRIMARY KEY, value TEXT);
CREATE TABLE TARGET_INFO_SESSION_START_TIME(utcEpochNs INTEGER, utcTime TEXT);
CREATE TABLE NVTX_EVENTS(start INTEGER NOT NULL, end INTEGER, eventType INTEGER NOT NULL, rangeId INTEGER,
    text TEXT, globalTid INTEGER, textId INTEGER, domainId INTEGER);
CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME(start INTEGER NOT NULL, end INTEGER NOT NULL, globalTid INTEGER,
    correlationId INTEGER, nameId INTEGER NOT NULL, returnValue INTEGER NOT NULL);
CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL(start INTEGER NOT NULL, end INTEGER NOT NULL, deviceId INTEGER NOT NULL,
    contextId INTEGER NOT NULL, streamId INTEGER NOT NULL, correlationId INTEGER, globalPid INTEGER,
    demangledName INTEGER NOT NULL, shortName INTEGER NOT NULL, gridX INTEGER NOT NULL);
CREATE TABLE CUPTI_ACTIVITY_KIND_MEMCPY(start INTEGER NOT NULL, end INTEGER NOT NULL, deviceId INTEGER NOT NULL,
    streamId INTEGER NOT NULL, correlationId INTEGER, globalPid INTEGER, bytes INTEGER NOT NULL,
    copyKind INTEGER NOT NULL);
CREATE TABLE OSRT_API(start INTEGER NOT NULL, end INTEGER NOT NULL, globalTid INTEGER, correlationId INTEGER,
    nameId INTEGER NOT NULL, returnValue INTEGER NOT NULL);
"""
Rows = Iterable[Sequence[Any]]


def write_nvprof(
    path: Path,
    strings: Sequence[str],
    markers: Rows,  # (id, timestamp, index of the name + 1, 0 for the end)
    runtime: Rows,  # (cbid, start, end, correlation)
    kernels: Rows,  # (start, end, correlation, index of the name + 1)
) -> Path:
    """Write a database of nvprof's; process 7, thread 8, device 0, stream 7."""
    connection = sqlite3.connect(path)
    connection.executescript(_NVPROF)
    into = "INSERT INTO CUPTI_ACTIVITY_KIND_"
    connection.executemany("INSERT INTO StringTable(value) VALUES (?)", ((s,) for s in strings))
    connection.executemany(f"{into}MARKER(id, timestamp, name) VALUES (?, ?, ?)", markers)
    connection.executemany(
        f"{into}RUNTIME(cbid, start, end, processId, threadId, correlationId) VALUES (?, ?, ?, 7, 8, ?)",
        runtime,
    )
    connection.executemany(
        f"{into}CONCURRENT_KERNEL(start, end, deviceId, streamId, correlationId, name) VALUES (?, ?, 0, 7, ?, ?)",
        kernels,
    )
    connection.commit()
    connection.close()
    return path


def write_nsys(path: Path, strings: Sequence[str], **tables: Rows) -> Path:
    """Write an export of Nsight Systems; strings are numbered from 0, tables: whole rows by the table's name."""
    connection = sqlite3.connect(path)
    connection.executescript(_NSYS)
    connection.executemany("INSERT INTO StringIds VALUES (?, ?)", enumerate(strings))
    for table, rows in tables.items():
        for row in rows:
            connection.execute(f"INSERT INTO {table} VALUES ({', '.join('?' * len(row))})", row)
    connection.commit()
    connection.close()
    return path
