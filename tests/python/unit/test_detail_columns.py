# SPDX-License-Identifier: Apache-2.0
"""Columns of a capture's details: the native walk finds what NumPy finds, and refuses blocks that are cut short."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest
from plain_captures import WithoutKernels
from plain_captures import capture_of as plain_capture

from fastprof import _core, errors
from fastprof.base.native_numbers import DetailFlag, DetailType
from fastprof.decode.consolidate import table_of
from fastprof.model.sites import Site
from fastprof.model.table import NO_PAYLOAD, EventFlag, EventTable

STACK, OP, SHAPES = DetailType.PYTHON_STACK, DetailType.OP, DetailType.OP_INPUTS
JSON, NOTHING, MODULES = DetailType.JSON, DetailType.NOTHING, DetailType.MODULES
SHAPES_AT = DetailType.OP_INPUTS_REF
ENGINE = "autograd::engine::evaluate_function: MmBackward0"
NAMES = ("aten::mm", ENGINE, "aten::scaled_dot_product_attention", "aten::relu", "MmBackward0")
STRINGS = ["a.py(1): f\nb.py(2): g", "a.py(3): h", "", "top.Linear", '{"a": 1}', '{"b": [2]}']
NONE = 2**64 - 1


def block(kind: int, *contents: int) -> list[int]:
    return [kind | len(contents) << 16, *contents]


def matrix(rows: int, columns: int) -> list[int]:
    """Return the words of a dense float matrix in an op_inputs block."""
    return [1 | 1 << 5 | 2 << 8 | 6 << 16, rows | columns << 32, columns | 1 << 32]


def matrices(*sizes: tuple[int, int]) -> list[int]:
    words = [len(sizes) | len(sizes) << 32]
    for size in sizes:
        words += matrix(*size)
    return words


def capture_of(rows: list[tuple[int, int, list[int] | None]], words: list[int]) -> _core.Capture:
    """Return a capture of rows (site, parent, blocks). words: lie in front of the payload of each row."""
    payload = []
    for _, _, blocks in rows:
        payload.append(NO_PAYLOAD if blocks is None else len(words))
        words = words if blocks is None else [*words, len(blocks), *blocks]
    has = np.array([blocks is not None for _, _, blocks in rows], np.bool_)
    return plain_capture(
        [Site(name, category="cpu_op", function="o") for name in NAMES],
        payload,
        words,
        STRINGS,
        site=[site for site, _, _ in rows],
        parent=[parent for _, parent, _ in rows],
        flags=np.where(has, int(EventFlag.DETAIL), 0) | int(EventFlag.FINISHED),
    )


def random_capture(seed: int) -> _core.Capture:
    drawn = random.Random(seed)
    shared = matrices((2, 3), (3, 4))
    rows: list[tuple[int, int, list[int] | None]] = []
    for row in range(drawn.choice([1, 7, 200])):
        blocks: list[int] = []
        if drawn.random() < 0.6:
            numbers = [drawn.choice([NONE, 0, 5, row]), drawn.choice([0, 0, 1, 9, NONE])]
            numbers += [row, drawn.choice([NONE, 0, 3])]
            blocks += block(OP, *numbers[: drawn.randrange(5)])
        for kind, texts in ((STACK, (0, 1, 2)), (MODULES, (3, 2)), (JSON, (4, 5))):
            if drawn.random() < 0.4:
                blocks += block(kind, drawn.choice(texts))
        if drawn.random() < 0.2:
            blocks += block(NOTHING, 77)
        if drawn.random() < 0.6:
            own = matrices((drawn.randrange(3), 3), (3, 4), (2, 2))
            blocks += drawn.choice([[SHAPES_AT], block(SHAPES, *own), block(SHAPES)])
        if drawn.random() < 0.3:
            blocks += [0] * drawn.randrange(3)  # padding
        parent = drawn.randrange(max(-1, row - 5), row) if row and drawn.random() < 0.8 else -1
        site = drawn.randrange(len(NAMES))
        rows.append((site, parent, None if drawn.random() < 0.2 else blocks))
    return capture_of(rows, block(SHAPES, *shared))


def values_of(table: EventTable) -> dict[str, Any]:
    found: dict[str, Any] = {
        name: [repr(column[row]) for row in range(len(table))]
        for name, column in table.coded.items()
    }
    for name in ("sequence_nr", "fwd_thread", "node_id", "flops"):
        if table.has(name):
            column = table.column(name)
            found[name] = (column.dtype, column.tolist())
    return found


@pytest.mark.parametrize("seed", range(60))
def test_columns_are_those_that_numpy_finds(seed: int) -> None:
    capture = random_capture(seed)
    assert values_of(table_of(capture)) == values_of(table_of(WithoutKernels(capture)))
    options: Any = {"with_flops": False, "with_stack": False}
    plain = values_of(table_of(WithoutKernels(capture), **options))
    assert values_of(table_of(capture, **options)) == plain


def test_numbers_of_a_backward_function_are_shown_around_it() -> None:
    rows: list[tuple[int, int, list[int] | None]] = [
        (1, -1, None),
        (4, 0, block(OP, 8, 2, 1)),
        (1, -1, None),
        (4, 2, block(OP, NONE, 2, 1)),  # AccumulateGrad: no sequence number
    ]
    table = table_of(capture_of(rows, []))
    assert table.column("sequence_nr").tolist() == [8, 8, -1, -1]
    assert table.column("fwd_thread").tolist() == [2, 2, -1, -1]
    assert not table.has("node_id")
    table = table_of(capture_of([*rows[2:3], (4, 0, rows[3][2])], []))
    assert set(table.column("sequence_nr").tolist()) == {-1} and table.has("fwd_thread")


@pytest.mark.parametrize(
    ("blocks", "message"),
    [
        (block(OP, 1, 2)[:-1], "row 1: its details are truncated"),
        ([STACK | 9 << 16, 0], "row 1: its details are truncated"),
        (block(STACK, len(STRINGS)), "row 1: its details refer to a missing text"),
        (block(JSON, 2**40), "row 1: its details refer to a missing text"),
    ],
)
def test_details_that_are_not_there_are_refused(blocks: list[int], message: str) -> None:
    capture = capture_of([(0, -1, None), (0, -1, blocks)], [])
    with pytest.raises(errors.ValueError, match=message):
        table_of(capture)


def test_inputs_are_decoded_when_somebody_looks() -> None:
    bad = block(SHAPES, 5 | 5 << 32)  # says that there are five
    table = table_of(capture_of([(3, -1, bad)], []))
    for look in (lambda values: values[1], list):
        with pytest.raises(errors.FormatError, match="incomplete"):
            look(table.coded["input_shapes"].values)
    assert table.coded["overload_name"][0] == "o"


def test_each_kind_of_detail_is_decoded_unless_left_out() -> None:
    blocks = block(STACK, 0) + block(MODULES, 3) + block(SHAPES, *matrices((2, 3)))
    capture = capture_of([(0, -1, blocks)], [])
    names = {"stack", "module_hierarchy", "input_shapes"}
    assert set(table_of(capture).coded) >= names
    for option, column in (
        ("with_stack", "stack"),
        ("with_modules", "module_hierarchy"),
        ("with_shapes", "input_shapes"),
    ):
        given: Any = {option: False}
        assert set(table_of(capture, **given).coded) & names == names - {column}


class Counted:
    """A capture with perf counters."""

    counter_names = ("cycles", "misses")

    def __init__(self, capture: Any) -> None:
        self._capture = capture

    def __getattr__(self, name: str) -> Any:
        return getattr(self._capture, name)


def test_perf_counters_of_rows() -> None:
    begin, end = DetailType.COUNTERS_BEGIN, DetailType.COUNTERS_END
    written, unavailable = DetailFlag.WRITTEN << 32, DetailFlag.UNAVAILABLE << 32

    def row(first: list[int], last: list[int], head: int = written, begin_head: int = 0) -> Any:
        blocks = [begin | 4 << 16 | begin_head, *first, end | 4 << 16 | head, *last]
        return (0, -1, blocks)

    rows = [
        row([100, 10, 0, 0], [350, 12, 40, 40]),
        row([0, 0, 0, 0], [300, 6, 30, 10]),  # counted a third of the time
        row([0, 0, 0, 0], [1, 1, 5, 0]),  # never counted
        row([0, 0, 0, 0], [9, 9, 9, 9], head=0),  # did not end
        row([0, 0, 0, 0], [9, 9, 9, 9], head=written | unavailable),
        row([0, 0, 0, 0], [9, 9, 9, 9], begin_head=unavailable),
        (0, -1, None),
    ]
    values = table_of(Counted(capture_of(rows, []))).coded["counters"]
    assert values[0] == {"cycles": 250.0, "misses": 2.0}
    assert values[1] == {"cycles": 900.0, "misses": 18.0}
    assert all(value != value for value in values[2].values())  # NaN
    assert [values[i] for i in range(3, 7)] == [None] * 4
    assert "counters" not in table_of(Counted(capture_of(rows[3:], []))).coded
    assert "counters" not in table_of(capture_of(rows, [])).coded
