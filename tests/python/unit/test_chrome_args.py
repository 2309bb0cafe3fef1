# SPDX-License-Identifier: Apache-2.0
"""chrome_args: the columns, kinds, flags and scopes that the args of a trace's events become."""

from __future__ import annotations

import json
from typing import Any

import pytest

from fastprof import EventTable, Site
from fastprof.base.record_scope import RecordScope
from fastprof.importers.chrome_args import ScopeRule, as_int, put_args, range_state
from fastprof.importers.perfetto_sequence import Sequence
from fastprof.importers.table_builder import TableBuilder
from fastprof.model.table import EventFlag, EventKind


@pytest.mark.parametrize(
    ("value", "number"),
    [
        (0, 0),
        (-(1 << 63), -(1 << 63)),
        (-(1 << 63) - 1, None),
        ((1 << 63) - 1, (1 << 63) - 1),
        (1 << 63, None),
        ("-9223372036854775808", -(1 << 63)),
        ("9223372036854775808", None),
        ("00000000000000000007", 7),
        ("000000000000000000007", None),
        ("x", None),
        (1.0, None),
        (True, None),
        (None, None),
    ],
)
def test_integers_of_64_bits(value: Any, number: int | None) -> None:
    assert as_int(value) == number


@pytest.mark.parametrize(
    ("args", "kind", "flags"),
    [
        ({}, EventKind.RANGE, EventFlag.FINISHED),
        ({"finished": False}, EventKind.RANGE, 0),
        ({"finished": 0}, EventKind.RANGE, EventFlag.FINISHED),
        ({"End thread": 0}, EventKind.RANGE, EventFlag.FINISHED | EventFlag.CROSS_THREAD_END),
        ({"is_async": True}, EventKind.ASYNC_RANGE, EventFlag.FINISHED),
        ({"is_async": 1}, EventKind.RANGE, EventFlag.FINISHED),
        (
            {"is_async": True, "End thread": 4},
            EventKind.RANGE,
            EventFlag.FINISHED | EventFlag.CROSS_THREAD_END,
        ),
        ({"clamped": True}, EventKind.RANGE, EventFlag.FINISHED | EventFlag.CLAMPED),
        ({"clamped": "yes"}, EventKind.RANGE, EventFlag.FINISHED),
        (
            {"enclosing": True, "clock_discontinuity": True},
            EventKind.RANGE,
            EventFlag.FINISHED | EventFlag.ENCLOSING | EventFlag.CLOCK_DISCONTINUITY,
        ),
    ],
)
def test_kind_and_flags(args: dict[str, Any], kind: int, flags: int) -> None:
    assert range_state(args) == (int(kind), int(flags))


def table_of(args: dict[str, Any], **options: bool) -> EventTable:
    builder = TableBuilder()
    builder.add(0, 1, 2, builder.site_of(Site("a")), builder.track_of("t", 1, 2))
    put_args(builder, 0, args, **options)
    return builder.finish()


@pytest.mark.parametrize(
    ("name", "column"),
    [
        ("Sequence number", "sequence_nr"),
        ("Fwd thread id", "fwd_thread"),
        ("Node id", "node_id"),
        ("Record function id", "record_function_id"),
        ("Python id", "python_id"),
        ("Python parent id", "python_parent_id"),
        ("Python module id", "python_module_id"),
    ],
)
def test_numbers_have_columns(name: str, column: str) -> None:
    assert table_of({name: 7}).column(column).tolist() == [7]
    assert not table_of({name: "x"}).has(column)
    zero = table_of({name: 0})
    assert zero.has(column) == (column != "fwd_thread")  # Kineto writes 0 for none
    for number in (-(1 << 31), (1 << 31) - 1, -(1 << 31) - 1, 1 << 31):
        fits = column != "node_id" or -(1 << 31) <= number < 1 << 31
        assert table_of({name: number}).has(column) == fits


def test_texts_and_lists_have_columns() -> None:
    args = {
        "Input Dims": [[2]],
        "Input type": ["float"],
        "Input Strides": [[1]],
        "Concrete Inputs": ["3"],
        "Call stack": "a;\nb\nc;d",
        "Overload name": "out",
        "Module Hierarchy": "top(A)",
    }
    coded = {name: column[0] for name, column in table_of(args).coded.items()}
    assert json.loads(coded.pop("metadata_json")) == args
    assert coded == {
        "input_shapes": [[2]],
        "input_dtypes": ["float"],
        "structured_input_strides": [[1]],
        "concrete_inputs": ["3"],
        "stack": ["a", "b", "c", "d"],
        "overload_name": "out",
        "module_hierarchy": "top(A)",
    }
    assert table_of(dict.fromkeys(args, 3)).coded.keys() == {"metadata_json"}


def test_states_are_left_out_of_the_text() -> None:
    args = {
        **dict.fromkeys(("finished", "is_async", "End thread", "clamped", "enclosing"), 1),
        "clock_discontinuity": 1,
    }
    assert table_of(args).coded == {} and table_of({}).coded == {}
    (text,) = table_of({**args, "x": 1}).coded["metadata_json"].values
    assert json.loads(text) == {"x": 1}
    (text,) = table_of(args, has_state=False).coded["metadata_json"].values
    assert json.loads(text) == args


def test_scopes() -> None:
    rule = ScopeRule()
    function, backward = RecordScope.FUNCTION, RecordScope.BACKWARD_FUNCTION
    assert rule.scope("mm", "cpu_op", {}) == function
    assert rule.scope("MmBackward0", "cpu_op", {"Fwd thread id": 1}) == backward
    assert rule.scope("MmBackward0", "cpu_op", {"Fwd thread id": 0}) == function
    accumulate = "torch::autograd::AccumulateGrad"
    assert rule.scope(accumulate, "cpu_op", {}) == function
    engine = f"autograd::engine::evaluate_function: {accumulate}"
    assert rule.scope(engine, "cpu_op", {"Fwd thread id": 1}) == function
    assert rule.scope(accumulate, "cpu_op", {}) == backward
    assert rule.scope("step", "user_annotation", {"Fwd thread id": 1}) == RecordScope.USER_SCOPE


def test_a_thread_descriptor_without_numbers_is_zero() -> None:
    sequence = Sequence(1)
    sequence.set_thread({})
    assert (sequence.pid, sequence.tid, sequence.now_ns) == (0, 0, 0)
