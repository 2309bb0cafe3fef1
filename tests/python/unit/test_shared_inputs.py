# SPDX-License-Identifier: Apache-2.0
"""Inputs that several rows of a capture share: columns are as if each row had its own, also in files and joins."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from plain_captures import WithoutKernels
from plain_captures import capture_of as plain_capture

import fastprof
from fastprof import _core, errors
from fastprof.base.native_numbers import DetailType
from fastprof.decode.consolidate import table_of
from fastprof.decode.op_inputs import OpInputs
from fastprof.model.join import join_tables
from fastprof.model.sites import Site
from fastprof.model.table import NO_PAYLOAD, EventFlag, EventTable

OP, SHAPES, JSON = DetailType.OP, DetailType.OP_INPUTS, DetailType.JSON
SHAPES_AT = DetailType.OP_INPUTS_REF
DETAIL, FINISHED = int(EventFlag.DETAIL), int(EventFlag.FINISHED)


def integers(*values: int) -> list[int]:
    """Return the words of an op_inputs block with this many integers."""
    items = [(3, value & 2**64 - 1) for value in values]
    return [len(values) | len(values) << 32, *(word for item in items for word in item)]


def tensor(*sizes: int) -> list[int]:
    """Return the words of an op_inputs block with one dense float tensor of at most one dimension."""
    (size,) = sizes
    return [1 | 1 << 32, 1 | 1 << 5 | 1 << 8 | 6 << 16, size, 1]


def block(kind: int, contents: list[int]) -> list[int]:
    return [kind | len(contents) << 16, *contents]


INPUTS = [integers(7, -1), tensor(4), integers(7, -1), tensor(4), tensor(5), None, integers(7, -1)]


def capture_of(shared: bool, inputs: list[Any] | None = None, **changes: Any) -> _core.Capture:
    """Return a capture of ops with these inputs. shared: each distinct block is stored once."""
    inputs = INPUTS if inputs is None else inputs
    words: list[int] = []
    at: dict[tuple[int, ...], int] = {}
    payload = []
    for number, contents in enumerate(inputs):
        blocks = block(OP, [number, 0])
        if contents is not None and shared:
            if tuple(contents) not in at:
                at[tuple(contents)] = len(words)
                words += block(SHAPES, contents)
            blocks.append(SHAPES_AT | at[tuple(contents)] << 32)
        elif contents is not None:
            blocks += block(SHAPES, contents)
        blocks += block(JSON, [number % 2])
        payload.append(len(words))
        words += [len(blocks), *blocks]
    given: dict[str, Any] = {
        "site": np.arange(len(inputs)) % 2,
        "payload": payload,
        "flags": np.full(len(inputs), DETAIL | FINISHED),
        "payload_words": words,
        **changes,
    }
    sites = [Site(name, category="cpu_op") for name in ("aten::add", "aten::mm")]
    texts = ('{"a": 1}', '{"a": 2}')
    return plain_capture(sites, given.pop("payload"), given.pop("payload_words"), texts, **given)


def values_of(table: EventTable) -> dict[str, list[Any]]:
    found: dict[str, list[Any]] = {
        name: [column[row] for row in range(len(table))] for name, column in table.coded.items()
    }
    for name in ("flops", "sequence_nr"):
        found[name] = table.column(name).tolist()
    return found


def test_columns_are_those_of_rows_with_inputs_of_their_own() -> None:
    whole, shared = capture_of(False), capture_of(True)
    assert len(shared.payload_words()) < len(whole.payload_words())
    expected = values_of(table_of(whole))
    assert expected["concrete_inputs"][0] == [7, -1]
    assert expected["input_shapes"] == [[[], []], [[4]], [[], []], [[4]], [[5]], [], [[], []]]
    assert expected["sequence_nr"] == list(range(len(INPUTS)))
    for capture in (shared, WithoutKernels(whole), WithoutKernels(shared)):
        assert values_of(table_of(capture)) == expected


def test_blocks_are_found_where_they_lie() -> None:
    capture = capture_of(True)
    words = capture.payload_words()
    for kind, (rows, at) in zip((OP, SHAPES, 3), capture.find_blocks([OP, SHAPES, 3]), strict=True):
        for row, place in zip(rows.tolist(), at.tolist(), strict=True):
            expected = [row, 0] if kind == OP else INPUTS[row]
            assert words[place - 1] & 0xFFFF == kind
            assert words[place : place + len(expected)].tolist() == expected
        assert (
            rows.tolist() == {OP: list(range(len(INPUTS))), SHAPES: [0, 1, 2, 3, 4, 6], 3: []}[kind]
        )


def test_inputs_that_are_not_there_are_refused() -> None:
    words = capture_of(True).payload_words()
    (first,) = np.flatnonzero(words & np.uint64(0xFFFF) == SHAPES_AT)[:1]
    for at in (len(words), len(words) - 1, 1, 2**32 - 1):
        bad = words.copy()
        bad[first] = np.uint64(SHAPES_AT | at << 32)
        with pytest.raises(errors.ValueError, match=r"row 0: its details refer to missing inputs"):
            capture_of(True, payload_words=bad)
    bad = words.copy()
    bad[0] |= np.uint64(0xFFFF << 16)  # the block goes on behind the words
    with pytest.raises(errors.ValueError, match="refer to missing inputs"):
        capture_of(True, payload_words=bad)
    without = np.full(len(INPUTS), NO_PAYLOAD), np.full(len(INPUTS), FINISHED)
    capture_of(True, payload=without[0], flags=without[1], payload_words=bad)  # no row refers to it


def test_saved_loaded_joined_and_selected_tables_keep_their_inputs(tmp_path: Path) -> None:
    table = table_of(capture_of(True))
    expected = values_of(table)
    path = tmp_path / "trace.fastprof"
    fastprof.save(table, path)
    loaded = fastprof.load(path)
    assert values_of(loaded) == expected
    assert loaded.payload_words is not None and table.payload_words is not None
    assert loaded.payload_words.tolist() == table.payload_words.tolist()
    other = table_of(capture_of(True, [tensor(9), None, tensor(9)]))
    joined = values_of(join_tables([table, other, loaded]))
    # Only sessions that record allocations have the storages of inputs.
    for name in (*(field for field in OpInputs._fields if field != "input_storages"), "flops"):
        mine: Any = values_of(other)[name]
        assert joined[name] == expected[name] + mine + expected[name]
    rows = [4, 0, 6]
    selected = values_of(table[rows])
    assert all(selected[name] == [expected[name][row] for row in rows] for name in expected)


@pytest.mark.parametrize("shared", [False, True])
def test_traces_tell_the_inputs(tmp_path: Path, shared: bool) -> None:
    path = tmp_path / "trace.json"
    capture_of(shared).write_chrome_trace(bytes(path), [], "t")
    again = fastprof.load(path)
    assert [again.coded["input_shapes"][row] for row in (0, 1, 4)] == [[[], []], [[4]], [[5]]]
