# SPDX-License-Identifier: Apache-2.0
"""read_columns: columns of a shard as NumPy arrays, checked so that no answer fails on a damaged one.

Arrays are made of Arrow's buffers: its own conversions would import pandas and pyarrow.compute (0.4 s), if they are
installed.
"""

from __future__ import annotations

import contextlib
import zlib
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from fastprof.base import errors
from fastprof.base.optional_package import optional_package
from fastprof.ranks.event_names import NO_WAIT
from fastprof.ranks.manifest import Shard
from fastprof.ranks.places import open_file

__all__ = ["ShardColumns", "read_columns"]

Array: TypeAlias = NDArray[Any]
_TEXTS = ("name", "category", "collective", "group")
_ABSENT = {"collective": -1, "group": -1, "sequence": -1, "size_bytes": -1, "waits_for": NO_WAIT}
_MOST_NS = 1 << 62  # so that a begin plus a duration is an int64
_MOST_THREADS = 1 << 20  # without their names in the manifest


class ShardColumns(NamedTuple):
    """numbers: by name; codes of texts, whose texts are in `texts`; -1 for null, NO_WAIT in waits_for.

    "row" among the numbers: rows of the collectives, if columns of these alone were read.
    """

    numbers: dict[str, Array]
    texts: dict[str, list[str]]


def read_columns(
    shard: Shard, names: Sequence[str], of_collectives: Sequence[str] = ()
) -> ShardColumns:
    """Read columns of a shard. of_collectives: those to be read of the rows with a collective alone.

    Raises errors.FormatError, naming the file, if it is damaged. Any thread.
    """
    with _naming_damage(shard.path):
        table = _table(shard, [*names, *of_collectives])
        size = shard.manifest.get("events")
        if size is not None and len(table) != size:
            raise ValueError(f"{len(table)} events instead of {size}")
        found = ShardColumns({}, {})
        for name in names:
            if name not in table.column_names and name == "waits_for":  # of an earlier version
                found.numbers[name] = np.full(len(table), NO_WAIT, np.int32)
            else:
                _add(found, name, _array(table.column(name)))
        if of_collectives:
            kinds = _array(table.column("collective"))
            rows = found.numbers["row"] = np.flatnonzero(_valid(kinds))
            for name in of_collectives:
                _add(found, name, _array(table.column(name)), rows)
        _check_rows(found, len(table), shard.manifest.get("threads") or ())
        return found


def _table(shard: Shard, names: Sequence[str]) -> Any:
    arrow = optional_package("pyarrow", "ranks")
    parquet = optional_package("pyarrow.parquet", "ranks")
    with open_file(shard.path) as file:
        data = file.read()
    expected = shard.manifest.get("crc32")
    if expected is not None and zlib.crc32(data) != expected:
        raise ValueError("its checksum is not the one in its manifest")
    with parquet.ParquetFile(arrow.BufferReader(data)) as opened:
        table = opened.read(columns=list(names), use_threads=False)
    return table.unify_dictionaries().combine_chunks()


def _array(column: Any) -> Any:
    """Return the one chunk of a column."""
    if not column.num_chunks:
        column = column.combine_chunks()
    return column.chunk(0) if hasattr(column, "chunk") else column


def _add(found: ShardColumns, name: str, chunk: Any, rows: Array | None = None) -> None:
    """Add a column. rows: the rows to read, default: all."""
    kind = chunk.type
    if name in _TEXTS:
        texts = chunk.dictionary.to_pylist()
        if not all(isinstance(each, str) for each in texts):
            raise TypeError(f"{name} is {kind}")
        found.texts[name] = texts
        chunk = chunk.indices
    values = _integers(chunk)
    if values is None:
        raise TypeError(f"{name} is {kind}")
    if rows is not None:
        values = values[rows]
    if chunk.null_count:
        if name not in _ABSENT:
            raise ValueError(f"{name} has events without a value")
        valid = _valid(chunk) if rows is None else _valid(chunk)[rows]
        values = np.where(valid, values, _ABSENT[name])
    if name in _TEXTS:
        _check(name, values, _ABSENT.get(name, 0), len(texts))
    found.numbers[name] = values


def _valid(chunk: Any) -> Array:
    """Return a mask of the rows of an array that are not null."""
    if not chunk.null_count:
        return np.ones(len(chunk), np.bool_)
    bits = np.unpackbits(np.frombuffer(chunk.buffers()[0], np.uint8), bitorder="little")
    return bits[chunk.offset :][: len(chunk)].view(np.bool_)


def _integers(chunk: Any) -> Array | None:
    """Return the values of an array of signed integers without a copy; None for another type."""
    code = {"int8": "i1", "int16": "i2", "int32": "i4", "int64": "i8"}.get(str(chunk.type))
    if code is None:
        return None
    buffer = chunk.buffers()[1]
    if buffer is None:
        return np.zeros(len(chunk), code)
    return np.frombuffer(buffer, code, len(chunk), chunk.offset * int(code[1]))


def _check_rows(found: ShardColumns, size: int, threads: Sequence[Any]) -> None:
    """Raise ValueError for numbers that are no rows, threads or times."""
    numbers = found.numbers
    for name in {"start_ns", "duration_ns"} & numbers.keys():
        _check(name, numbers[name], 1 - _MOST_NS, _MOST_NS)
    if "thread" in numbers:
        _check("thread", numbers["thread"], 0, len(threads) or _MOST_THREADS)
    if "waits_for" in numbers:
        _check("waits_for", numbers["waits_for"], NO_WAIT, size)
    if {"collective", "group"} <= numbers.keys() and (
        (numbers["collective"] >= 0) & (numbers["group"] < 0)
    ).any():
        raise ValueError("group has collectives without a value")
    if "parent" in numbers:
        _check("parent", numbers["parent"], -1, size)
        above = np.append(numbers["parent"], -1)  # the last row stands for -1
        for _ in range(size.bit_length() + 1):  # each time twice as far
            if (above < 0).all():
                return
            above = above[above]
        raise ValueError("parent has events that enclose themselves")


def _check(name: str, values: Array, least: int, end: int) -> None:
    if len(values) and not (least <= int(values.min()) and int(values.max()) < end):
        raise ValueError(f"{name} is {int(values.min())} to {int(values.max())}")


@contextlib.contextmanager
def _naming_damage(path: str) -> Iterator[None]:
    """Raise errors.FormatError, naming the file, for what reading a damaged shard within the block raises."""
    try:
        yield
    except errors.UnavailableError:
        raise
    except Exception as error:  # pyarrow's derive from several
        reason = str(error).split("\n", 1)[0]
        raise errors.FormatError(
            f"{path}: not a readable shard: {reason}. Leave it out, or write it again."
        ) from error
