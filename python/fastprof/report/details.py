# SPDX-License-Identifier: Apache-2.0
"""Details of rows, which the page shows when a row is selected: arguments, shapes, stacks, numbers, memory, FLOPs."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from fastprof.base.distinct import distinct
from fastprof.model.columns import CodedColumn
from fastprof.model.instants import instants
from fastprof.model.table import EventKind
from fastprof.report.packing import Packer
from fastprof.report.rows import ReportRows
from fastprof.report.texts import Strings, json_value

__all__ = ["add_columns", "add_mark_arguments", "add_stacks", "add_values"]

Array: TypeAlias = NDArray[Any]

# If the values of a column are decoded row by row, only those of this many rows, the longest ones, are written.
MAX_DECODED = 20_000
MAX_VALUE_CHARS = 16 << 20  # of all values of a column
_MAX_STACK_FRAMES = 4 << 20  # of all distinct stacks
# Coded column -> label in the details of a row.
_LABELS = {
    "overload_name": "overload",
    "input_shapes": "input shapes",
    "input_dtypes": "input types",
    "structured_input_strides": "input strides",
    "concrete_inputs": "inputs",
    "kwinputs": "arguments",
    "module_hierarchy": "module",
    "counters": "counters",
    "activity_type": "activity",
    "metadata_json": "arguments",
}
_NUMBERS = {"sequence_nr": -1, "fwd_thread": -1, "external_id": 0, "end_track": -1, "node_id": -1}


def add_columns(pack: Packer, rows: ReportRows) -> None:
    """Add the block "numbers": memory, FLOPs, device times and ids of rows, as far as the table has them."""
    table, tree = rows.table, rows.tree
    block = pack.block("numbers")
    for name in ("cpu_memory_usage", "device_memory_usage"):
        if table.has(name):
            block.integers(name, rows.column(name), signed=True)
            block.integers(f"self_{name}", rows.take(tree.self_of(name)), signed=True)
    if table.has("flops"):
        block.floats("flops", np.nan_to_num(rows.column("flops")))
    if tree.has_device_time:
        own, total = tree.device_self_and_total_ns
        block.integers("self_device_ns", rows.take(own), signed=True)
        block.integers("device_ns", rows.take(total), signed=True)
    for name, default in _NUMBERS.items():
        if table.has(name):
            values = rows.column(name)
            if bool((values != default).any()):
                block.integers(name, values, signed=True)


def add_values(pack: Packer, rows: ReportRows, notes: list[str]) -> list[dict[str, Any]]:
    """Add the block "values", codes + 1 of the rows; return name, label and JSON texts of each column.

    notes: a line is appended about the columns that are not written completely, one for all that lack as many rows.
    """
    found: list[dict[str, Any]] = []
    incomplete: dict[int, list[tuple[str, int]]] = {}
    block = pack.block("values")
    for name, label in _LABELS.items():
        column = rows.table.coded.get(name)
        if column is None:
            continue
        codes = rows.take(rows.tree.take(column.codes))
        codes, texts, left_out = _texts(column, codes, rows)
        kept = int(np.count_nonzero(codes >= 0))
        if left_out:
            incomplete.setdefault(left_out, []).append((label, kept))
        if texts:
            block.integers(name, codes + 1)
            found.append({"name": name, "label": label, "values": texts})
    for left_out, columns in incomplete.items():
        labels = ", ".join(dict.fromkeys(label for label, _ in columns))
        least, most = min(n for _, n in columns), max(n for _, n in columns)
        kept_text = f"{least:,}" if least == most else f"{least:,} to {most:,}"
        notes.append(
            f"{labels} of {left_out:,} rows are not in this report; those of {kept_text} rows are"
        )
    return found


def _texts(column: CodedColumn, codes: Array, rows: ReportRows) -> tuple[Array, list[str], int]:
    """Return (code by row, -1 for none; JSON texts; number of rows whose value is left out)."""
    given = np.flatnonzero(codes >= 0)
    wanted = given
    decoded = not isinstance(column.values, (tuple, list))  # computed by row when accessed
    if decoded and len(given) > MAX_DECODED:
        length = (rows.end_ns - rows.start_ns)[given]
        wanted = given[np.sort(np.argpartition(-length, MAX_DECODED)[:MAX_DECODED])]
    used = distinct(codes[wanted])
    texts: list[str] = []
    number = np.full(len(column.values) + 1, -1, np.int64)
    chars = 0
    for code in used.tolist():
        value = column.values[code]
        if value is None or (isinstance(value, (str, list, tuple, dict)) and not len(value)):
            continue
        text = value if isinstance(value, str) and _is_json(value) else json_value(value)
        chars += len(text)
        if chars > MAX_VALUE_CHARS:
            break
        number[code] = len(texts)
        texts.append(text)
    written = np.full(len(codes), -1, np.int64)
    written[wanted] = number[codes[wanted]]
    left_out = len(given) - len(wanted)
    if chars > MAX_VALUE_CHARS:
        left_out += int(np.count_nonzero(written[wanted] < 0))
    return written, texts, left_out


def _is_json(text: str) -> bool:
    return text[:1] in "{["


def add_stacks(
    pack: Packer, rows: ReportRows, strings: Strings, notes: list[str]
) -> list[list[int]]:
    """Add the block "stacks", code + 1 of the rows; return the frames, innermost first, of each stack."""
    column = rows.table.coded.get("stack")
    if column is None:
        return []
    codes = rows.take(rows.tree.take(column.codes))
    number = np.full(len(column.values) + 1, -1, np.int64)
    stacks: list[list[int]] = []
    frames = 0
    used = distinct(codes[codes >= 0]).tolist()
    for code in used:
        stack: Sequence[str] = column.values[code] or ()
        frames += len(stack)
        if frames > _MAX_STACK_FRAMES:
            notes.append(
                f"{len(used) - len(stacks):,} of {len(used):,} stacks are not in this report"
            )
            break
        if stack:
            number[code] = len(stacks)
            stacks.append([strings.number(frame) for frame in stack])
    pack.block("stacks").integers("stack", number[codes] + 1)
    return stacks


def add_mark_arguments(rows: ReportRows, notes: list[str]) -> dict[str, str]:
    """Return the arguments of marks as JSON texts, by "time in ns from t0, name"."""
    table = rows.table
    count = int(np.count_nonzero(table.column("kind") == EventKind.MARK))
    if count > MAX_DECODED:
        notes.append(f"arguments of {count:,} marks are not in this report")
        return {}
    return {
        f"{mark.time_ns - table.t0_ns} {mark.name}": json_value(mark.args)
        for mark in instants(table, {EventKind.MARK})
        if mark.args
    }


def to_bytes(value: Any) -> bytes:
    """Return compact JSON. Lone surrogates, which UTF-8 cannot encode, are escaped."""
    return json.dumps(value, separators=(",", ":"), allow_nan=False).encode()
