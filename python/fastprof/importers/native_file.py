# SPDX-License-Identifier: Apache-2.0
"""Reader of fastprof's own trace files. Layout: formats/native_file.py."""

from __future__ import annotations

import json
import zlib
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from fastprof.base import errors
from fastprof.formats.native_file import DTYPES, MAGIC, PREFIX, VERSION, aligned, decode_value
from fastprof.importers.check_table import check_indices
from fastprof.importers.check_values import check_values
from fastprof.importers.memory_budget import JSON_BYTES_A_CHARACTER
from fastprof.importers.source import Source
from fastprof.model.sites import Site, SiteTable, Track, TrackTable
from fastprof.model.table import CODED_COLUMNS, COLUMNS, CodedColumn, EventTable, KernelTable

__all__ = ["read_native_file"]

Array: TypeAlias = NDArray[Any]
_KERNEL_FIELDS = {"row": "int64", "name": "int32", "device": "int32", "duration_ns": "int64"}


def read_native_file(source: Source, *, mmap: bool = False) -> EventTable:
    """Return the table that save() wrote.

    mmap: leave columns on disk until they are accessed (not for compressed files; the file must not
    be truncated while the table exists). Each block's checksum is compared. Raises
    errors.FormatError, naming the place.
    """
    where = source.path

    def fail(what: str) -> errors.FormatError:
        return errors.FormatError(f"{where}: {what}")

    prefix = source.read(PREFIX.size)
    if len(prefix) < PREFIX.size:
        raise fail(f"the file ends at byte {len(prefix)}, inside the {PREFIX.size}-byte prefix")
    magic, version, crc, header_size, total = PREFIX.unpack(prefix)
    if magic != MAGIC:
        raise fail("offset 0: not a fastprof trace")
    if version != VERSION:
        raise fail(
            f"offset 8: the file has format version {version}, but this fastprof reads {VERSION}. "
            "Use the version of fastprof that wrote it."
        )
    known = source.limit if source.compressed else source.size
    if total > known or header_size > total or aligned(PREFIX.size + header_size) > total:
        raise fail(
            f"offset 16: the prefix declares a header of {header_size} bytes in a file of {total}, but "
            f"the file has {known}; it is truncated or damaged"
        )
    source.budget.keep(JSON_BYTES_A_CHARACTER * header_size)
    text = source.read(header_size)
    if len(text) < header_size:
        raise fail(f"the file ends at byte {source.offset}, inside the header")
    if zlib.crc32(text) != crc:
        raise fail("offset 32: the header does not match its checksum")
    header = _json(text, fail)
    start = aligned(PREFIX.size + header_size)
    source.read(start - PREFIX.size - header_size)
    try:
        arrays = _read_blocks(source, header, start, total, mmap, fail)
        table = _table(header, arrays)
    except (KeyError, IndexError, TypeError, AttributeError, OverflowError) as error:
        raise fail(f"offset 32: the header is malformed: {type(error).__name__} {error}") from None
    except errors.FormatError as error:
        raise error if str(error).startswith(where) else fail(f"header: {error}") from None
    except ValueError as error:
        raise fail(f"offset 32: the header is malformed: {error}") from None
    check_indices(table, where)
    check_values(table, where)
    return table


def _json(text: bytes, fail: Any) -> dict[str, Any]:
    try:
        header = json.loads(text.decode("ascii"))
    except (ValueError, RecursionError) as error:
        raise fail(f"offset 32: the header is not valid JSON: {error}") from None
    if not isinstance(header, dict):
        raise fail("offset 32: the header is not a JSON object")
    return header


def _read_blocks(
    source: Source,
    header: dict[str, Any],
    start: int,
    total: int,
    mmap: bool,
    fail: Any,
) -> dict[str, Array]:
    arrays: dict[str, Array] = {}
    at = start
    for block in header["blocks"]:
        name, dtype_name, count = block["name"], block["dtype"], block["count"]
        if not isinstance(name, str) or dtype_name not in DTYPES or name in arrays:
            raise fail(
                f"offset 32: block {str(name)[:60]!r} is listed twice or has an unknown dtype"
            )
        dtype = np.dtype(dtype_name).newbyteorder("<")
        if type(count) is not int or count < 0 or at + count * dtype.itemsize > total:
            raise fail(f"offset 32: block {name!r} of {count} values does not fit into the file")
        if block["offset"] != at - start:
            raise fail(
                f"offset 32: block {name!r} begins at {block['offset']!r}, expected {at - start}"
            )
        if mmap and source.can_map and not source.compressed and count:
            array: Array = np.memmap(source.path, dtype, "r", at, (count,))
        else:
            source.budget.keep(count * dtype.itemsize)
            array = _array(source, count, dtype)
            if len(array) < count:
                raise fail(f"the file ends at byte {source.offset}, inside block {name!r}")
            source.read(aligned(at + array.nbytes) - at - array.nbytes)
        if count and zlib.crc32(array.view(np.uint8).data) != block["crc32"]:
            raise fail(f"offset {at}: block {name!r} does not match its checksum")
        arrays[name] = array
        at = aligned(at + array.nbytes)
    if at != total:
        raise fail(f"offset 24: the prefix declares {total} bytes, but the blocks end at {at}")
    return arrays


def _array(source: Source, count: int, dtype: np.dtype[Any]) -> Array:
    """Read the next `count` values; fewer if the file ends early."""
    # The header is not trusted: allocate only the bytes that the file contains.
    if source.compressed:
        data = bytearray(source.read(count * dtype.itemsize))
        whole = len(data) // dtype.itemsize
        return np.frombuffer(data, dtype, whole) if whole else np.empty(0, dtype)
    array = np.empty(count, dtype)
    got = source.readinto(array.view(np.uint8).data) if count else 0
    return array[: got // dtype.itemsize]


def _table(header: dict[str, Any], arrays: dict[str, Array]) -> EventTable:
    columns: dict[str, Array] = {}
    coded: dict[str, CodedColumn] = {}
    kernels: dict[str, Array] = {}
    payload: Array | None = None
    for name, array in arrays.items():
        kind, _, rest = name.partition(":")
        if kind == "column" and rest in COLUMNS and COLUMNS[rest].dtype == array.dtype.name:
            columns[rest] = array
        elif kind == "codes" and rest in CODED_COLUMNS and array.dtype.name == "int32":
            values = tuple(decode_value(value) for value in header["coded"][rest])
            coded[rest] = CodedColumn(array, values)
        elif kind == "kernels" and _KERNEL_FIELDS.get(rest) == array.dtype.name:
            kernels[rest] = array
        elif name == "payload_words" and array.dtype.name == "uint64":
            payload = array
        else:
            raise errors.FormatError(
                f"block {name!r} of dtype {array.dtype.name} is unknown to this version"
            )
    for array in arrays.values():
        array.flags.writeable = False
    scalars = header["scalars"]
    return EventTable(
        columns,
        sites=_sites(header["sites"]),
        tracks=TrackTable(_track(row) for row in header["tracks"]),
        coded=coded,
        kernels=KernelTable(**kernels, names=_texts(header["kernel_names"])) if kernels else None,
        payload_words=payload,
        strings=_texts(header["strings"]),
        t0_ns=_int(scalars["t0_ns"]),
        t1_ns=_int(scalars["t1_ns"]),
        clock_error_ns=_int(scalars["clock_error_ns"]),
        pid=_int(scalars["pid"]),
        process_name=_text(scalars["process_name"]),
        dropped={_text(k): _int(v) for k, v in header["dropped"].items()},
        metadata=_mapping(decode_value(header["metadata"])),
        begin_ordered=bool(scalars["begin_ordered"]),
    )


def _sites(fields: dict[str, list[Any]]) -> SiteTable:
    decoded = {field: decode_value(values) for field, values in fields.items()}
    for field, values in decoded.items():
        default = Site._field_defaults.get(field, "")
        if not isinstance(values, list) or any(type(v) is not type(default) for v in values):
            raise errors.FormatError(
                f"a value of the site field {field[:40]!r} is not of type {type(default).__name__}"
            )
    return SiteTable(decoded.pop("name"), **decoded)


def _track(row: Any) -> Track:
    number, pid, tid, name, alive, *rest = row
    given: list[Any] = list(rest)
    thread_id = given.pop(0) if given else -1
    (device_kind,) = given or ("",)
    kept = Track(_int(number), _int(pid), _int(tid), _text(name), bool(alive), _int(thread_id))
    return kept._replace(device_kind=_text(device_kind))


def _texts(values: Any) -> tuple[str, ...]:
    return tuple(_text(value) for value in values)


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise errors.FormatError(f"expected text, found {str(value)[:40]!r}")
    return value


def _mapping(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict) or not all(isinstance(key, str) for key in value):
        raise errors.FormatError("the metadata is not an object")
    return value


def _int(value: Any) -> int:
    if type(value) is not int or not -(1 << 63) <= value < 1 << 63:
        raise errors.FormatError(f"expected a 64-bit integer, found {str(value)[:40]!r}")
    return value
