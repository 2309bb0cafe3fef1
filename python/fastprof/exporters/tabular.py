# SPDX-License-Identifier: Apache-2.0
"""EventLists as columns: NumPy, pandas, polars, Arrow, CSV, JSON."""

from __future__ import annotations

import csv
import json
import math
import os
from collections.abc import Iterable
from typing import Any

import numpy as np

from fastprof.base.atomic_file import atomic_text
from fastprof.base.measure_names import MEMORY_FIELDS, TIME_FIELDS
from fastprof.base.optional_package import optional_package
from fastprof.base.visible_text import encodable_text
from fastprof.model.parents import new_numbers

__all__ = [
    "export_csv",
    "export_json",
    "list_columns",
    "to_arrow",
    "to_pandas",
    "to_polars",
]


def list_columns(events: Any) -> dict[str, Any]:
    """Return the columns of an EventList in list order, as arrays, or lists of Python values.

    name (list of str), count, times in us (float64), memory in bytes (int64), flops (float64, NaN
    if unknown), node_id, device_type, is_async; for events also id, thread, start_us, end_us and
    parent (position in the list, -1 for none). Columns without data are left out: memory and device
    times that were not recorded, shapes, stacks, overload names.
    """
    frame = events._frame()
    order: Any = slice(None) if frame.order is None else frame.order
    names = frame.key.values
    columns: dict[str, Any] = {
        "name": [names[code] for code in frame.key.codes[order].tolist()],
        "count": frame.metric("count")[order],
    }
    for field in TIME_FIELDS:
        values = frame.metric(field)
        if field.find("device") < 0 or bool((values != 0).any()):
            columns[f"{field}_us"] = values[order] / frame.unit_per_us
    for field in MEMORY_FIELDS:
        values = frame.metric(field)
        if bool((values != 0).any()):
            columns[field] = values[order]
    if frame.flops is not None and not bool(np.isnan(frame.flops).all()):
        columns["flops"] = frame.flops[order]
    columns["node_id"] = frame.node_id[order]
    columns["device_type"] = frame.device_type[order]
    columns["is_async"] = frame.is_async[order]
    columns.update(_event_columns(events, order))
    for field in ("overload_name", "input_shapes", "stack"):
        column = getattr(frame, field)
        if column is None or not any(column.values):
            continue
        columns[field] = [
            None if code < 0 else column.values[code] for code in column.codes[order].tolist()
        ]
    return columns


def _event_columns(events: Any, order: Any) -> dict[str, Any]:
    """Return the columns that only events have; {} for averages."""
    tree = events.event_tree
    if tree is not None and events._columnar() is not None:
        start = tree.column("start_ns")[order] - tree.table.t0_ns
        parent = tree.parent[order]
        if not isinstance(order, slice):
            parent = new_numbers(order, len(tree))[parent]
        return {
            "id": tree.column("id")[order],
            "thread": tree.take(tree.table.thread)[order],
            "start_us": start / 1000,
            "end_us": (tree.column("end_ns")[order] - tree.table.t0_ns) / 1000,
            "parent": parent,
        }
    listed = list(events)
    if not listed or not all(hasattr(event, "time_range") for event in listed):
        return {}
    position_of = {id(event): i for i, event in enumerate(listed)}
    return {
        "id": np.array([event.id for event in listed]),
        "thread": np.array([event.thread for event in listed]),
        "start_us": np.array([float(event.time_range.start) for event in listed]),
        "end_us": np.array([float(event.time_range.end) for event in listed]),
        "parent": np.array([position_of.get(id(event.cpu_parent), -1) for event in listed]),
    }


def to_pandas(events: Any) -> Any:
    """Return a pandas DataFrame of list_columns. Raises errors.UnavailableError without pandas."""
    pandas = optional_package("pandas", "pandas")
    return pandas.DataFrame(list_columns(events))


def to_polars(events: Any) -> Any:
    """Return a polars DataFrame of list_columns, with shapes and stacks as JSON text.

    Raises errors.UnavailableError without polars.
    """
    polars = optional_package("polars", "polars")
    return polars.DataFrame(_uniform(list_columns(events)))


def to_arrow(events: Any) -> Any:
    """Return a pyarrow Table of list_columns, with shapes and stacks as JSON text.

    Raises errors.UnavailableError without pyarrow.
    """
    pyarrow = optional_package("pyarrow", "arrow")
    return pyarrow.table(_uniform(list_columns(events)))


def _uniform(columns: dict[str, Any]) -> dict[str, Any]:
    """Convert lists of Python values to JSON text (strings stay): typed columns need one type."""
    return {
        name: [
            None if v is None else v if isinstance(v, str) else json.dumps(v, default=str)
            for v in values
        ]
        if isinstance(values, list)
        else np.ascontiguousarray(values)
        for name, values in columns.items()
    }


def export_csv(events: Any, path: str | os.PathLike[str]) -> None:
    """Write list_columns as CSV with a header line; gzip if the path ends in .gz.

    NUL characters are written as their symbol U+2400, because CSV readers and, before 3.11, Python's own
    writer stop at NUL. Raises errors.IoError if the file cannot be written.
    """
    columns = {
        name: [v.replace("\0", "\u2400") if v else v for v in values]
        if isinstance(values, list)
        else values
        for name, values in _uniform(list_columns(events)).items()
    }
    with atomic_text(path) as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(columns)
        writer.writerows(zip(*(_python_values(c) for c in columns.values()), strict=True))


def export_json(events: Any, path: str | os.PathLike[str]) -> None:
    """Write list_columns as a JSON array of objects, one per line; NaN and infinities as null.

    Raises errors.IoError if the file cannot be written.
    """
    columns = list_columns(events)
    rows = zip(*(_python_values(c) for c in columns.values()), strict=True)
    with atomic_text(path) as file:
        separator = "[\n"
        for row in rows:
            record = {name: _plain(value) for name, value in zip(columns, row, strict=True)}
            file.write(separator + json.dumps(record, allow_nan=False))
            separator = ",\n"
        file.write("[]\n" if separator == "[\n" else "\n]\n")


def _python_values(column: Any) -> Iterable[Any]:
    return column if isinstance(column, list) else column.tolist()


def _plain(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, str):
        return encodable_text(value)
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    return value
