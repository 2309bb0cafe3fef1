# SPDX-License-Identifier: Apache-2.0
"""save: write an EventTable to a compact file, from which load() restores an equal table."""

from __future__ import annotations

import json
import os
import zlib
from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from fastprof.base import errors
from fastprof.base.atomic_file import atomic_binary
from fastprof.formats.native_file import (
    ALIGNMENT,
    DTYPES,
    MAGIC,
    PREFIX,
    VERSION,
    aligned,
    encode_value,
)
from fastprof.model.sites import Site
from fastprof.model.table import EventTable
from fastprof.model.tree import EventTree

__all__ = ["save"]

Array: TypeAlias = NDArray[Any]
Progress: TypeAlias = Callable[[int, int], None]

_PIECE_BYTES = 1 << 24  # unit of writing and of progress reports


def save(table: Any, path: str | os.PathLike[str], *, progress: Progress | None = None) -> None:
    """Write every column of a table to `path`, compressed with gzip if it ends in .gz.

    table: an EventTable, or an object with one: an EventTree, an EventList made from a table, a
    finished profile. progress: called with (bytes written, total bytes).

    The file has about the size of the columns in memory: 26 to 34 bytes per row. It appears once it
    is complete. Raises errors.IoError if it cannot be written, errors.ValueError for values that the
    format does not support and errors.StateError for averages. Layout: formats/native_file.py.

        fastprof.save(prof, "run.fastprof")
        table = fastprof.load("run.fastprof")

    Any thread.
    """
    source = table_of(table)
    blocks = _blocks(source)
    header = _header(source)
    offset = 0
    listed: list[dict[str, Any]] = []
    for name, array in blocks:
        listed.append(
            {
                "name": name,
                "dtype": array.dtype.name,
                "count": len(array),
                "offset": offset,
                "crc32": zlib.crc32(array.view(np.uint8).data) if len(array) else 0,
            }
        )
        offset = aligned(offset + array.nbytes)
    header["blocks"] = listed
    text = json.dumps(header, separators=(",", ":"), ensure_ascii=True, allow_nan=False).encode()
    start = aligned(PREFIX.size + len(text))
    total = start + offset
    with atomic_binary(path) as file:
        file.write(PREFIX.pack(MAGIC, VERSION, zlib.crc32(text), len(text), total))
        file.write(text + b"\0" * (start - PREFIX.size - len(text)))
        done = start
        for _, array in blocks:
            view = array.view(np.uint8).data if len(array) else memoryview(b"")
            for at in range(0, len(view), _PIECE_BYTES):
                done += file.write(view[at : at + _PIECE_BYTES])
                if progress is not None:
                    progress(done, total)
            done += file.write(b"\0" * (-array.nbytes % ALIGNMENT))
        if progress is not None:
            progress(total, total)


def table_of(source: Any) -> EventTable:
    """Return the table of an EventTable, EventTree, EventList or profile. Raises errors.ValueError for others."""
    if isinstance(source, EventTable):
        return source
    if isinstance(source, EventTree):
        return source.table
    found = getattr(source, "event_table", None)
    if found is None and hasattr(source, "to_table"):
        found = source.to_table()
    if isinstance(found, EventTable):
        return found
    raise errors.ValueError(
        f"cannot get an EventTable from a {type(source).__name__}. Pass a table, a finished profile, "
        "or its events()."
    )


def _little_endian(array: Array) -> Array:
    if array.dtype.name not in DTYPES:
        raise errors.ValueError(
            f"cannot save an array of dtype {array.dtype}. Use one of {', '.join(DTYPES)}."
        )
    return np.ascontiguousarray(array, array.dtype.newbyteorder("<"))


def _blocks(table: EventTable) -> list[tuple[str, Array]]:
    blocks = [(f"column:{name}", array) for name, array in table.to_dict().items()]
    blocks += [(f"codes:{name}", column.codes) for name, column in table.coded.items()]
    if table.kernels is not None:
        kernels = table.kernels
        blocks += [
            (f"kernels:{name}", np.asarray(getattr(kernels, name)))
            for name in ("row", "name", "device", "duration_ns")
        ]
    if table.payload_words is not None:
        blocks.append(("payload_words", table.payload_words))
    return [(name, _little_endian(array)) for name, array in blocks]


def _header(table: EventTable) -> dict[str, Any]:
    return {
        "format": "fastprof trace",
        "rows": len(table),
        "sites": {field: encode_value(list(table.sites.field(field))) for field in Site._fields},
        "tracks": [
            [int(t.id), int(t.pid), int(t.tid), t.name, bool(t.alive)]
            + ([int(t.thread_id)] if t.thread_id >= 0 or t.device_kind else [])
            + ([t.device_kind] if t.device_kind else [])
            for t in table.tracks
        ],
        "strings": list(table.strings),
        "coded": {
            name: [encode_value(value) for value in column.values]
            for name, column in table.coded.items()
        },
        "kernel_names": [] if table.kernels is None else list(table.kernels.names),
        "scalars": {
            "t0_ns": table.t0_ns,
            "t1_ns": table.t1_ns,
            "clock_error_ns": table.clock_error_ns,
            "pid": table.pid,
            "process_name": table.process_name,
            "begin_ordered": table.begin_ordered,
        },
        "dropped": table.dropped,
        "metadata": encode_value(table.metadata),
    }
