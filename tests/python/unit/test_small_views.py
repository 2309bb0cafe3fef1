# SPDX-License-Identifier: Apache-2.0
"""Small values of the API as Python objects: equality, hash, texts, slices, copies; tables as HTML."""

from __future__ import annotations

import pickle

import pytest

from fastprof import EventTable, Site, SiteTable, Track, errors
from fastprof.analysis.tree_events import LazyRows, TreeEvent
from fastprof.model.table import CodedColumn
from fastprof.model.tree import EventTree
from fastprof.views import Interval, Kernel
from fastprof.views.interval import TimedKernel


def test_intervals_and_kernels() -> None:
    one = Interval(1.5, 4.0)
    assert one == Interval(1.5, 4.0) and hash(one) == hash(Interval(1.5, 4.0))
    assert one != Interval(1.5, 4.5) and one != Interval(1.0, 4.0)
    assert one != (1.5, 4.0)
    assert repr(one) == "Interval(start=1.5, end=4.0)"
    assert Kernel("k", 0, 2.0).start_us is None
    timed = TimedKernel("k", 0, 2.0, 7.0)
    assert timed == Kernel("k", 0, 2.0) and timed.start_us == 7.0
    copied = pickle.loads(pickle.dumps(timed))
    assert type(copied) is TimedKernel and copied == timed and copied.start_us == 7.0


def tree() -> EventTree:
    table = EventTable(
        {"start_ns": [10, 20, 60, 30], "end_ns": [90, 50, 70, 45], "site": [0, 1, 2, 3],
         "track": [0, 0, 0, 0]},
        sites=[Site(name) for name in ("outer", "first", "second", "leaf")],
        tracks=[Track(7)],
    )  # fmt: skip
    return EventTree.of(table)


def test_events_of_a_tree() -> None:
    outer = TreeEvent(tree(), 0)
    assert (outer.name, outer.start_time_ns, outer.end_time_ns) == ("outer", 10, 90)
    assert (outer.duration_time_ns, outer.start_tid, outer.parent) == (80, 7, None)
    first, second = outer.children
    assert (first.name, second.name) == ("first", "second")
    assert repr(first) == "<TreeEvent first 30 ns>"
    (leaf,) = first.children
    assert leaf.parent is not None and leaf.parent.name == "first" and leaf.children == []
    assert isinstance(leaf, TreeEvent)
    assert [event.id for event in (outer, first, second)] == [0, 1, 2]
    assert leaf.id == 3 and tree().table.name(leaf.row) == "leaf"


def test_sequences_made_on_access() -> None:
    rows = LazyRows(4, lambda i: i * 10)
    assert [rows[0], rows[3], rows[-1], rows[-4]] == [0, 30, 30, 0]
    assert rows[1:3] == [10, 20] and rows[::-1] == [30, 20, 10, 0] and list(rows) == [0, 10, 20, 30]
    assert rows == [0, 10, 20, 30] and rows != [0] and rows != 7 and len(rows) == 4
    for index in (4, -5):
        with pytest.raises(IndexError, match=f"index {index} of a sequence of 4"):
            rows[index]
    assert len(LazyRows(0, lambda i: i)) == 0


def test_errors_of_tables() -> None:
    columns = {"start_ns": [1], "end_ns": [2], "site": [0]}
    table = EventTable(columns, sites=[Site("a")])
    with pytest.raises(KeyError, match=r"unknown column 'colour'\. Use one of start_ns, "):
        table.column("colour")
    with pytest.raises(KeyError, match=r"no column parent\. Compute it with EventTree\.of"):
        table.column("parent")
    with pytest.raises(errors.ValueError, match="coded column 'stack' has 2 rows, expected 1"):
        EventTable(columns, sites=[Site("a")], coded={"stack": CodedColumn.encode([None, None])})
    assert repr(table) == "<EventTable rows=1 sites=1 tracks=0 columns=start_ns,end_ns,site,track>"
    more = table.with_columns({"node_id": [3]}, coded={"stack": CodedColumn.encode([None])})
    assert repr(more).endswith("columns=start_ns,end_ns,site,track,node_id,stack>")


# ---- names -----------------------------------------------------------------------------------------


def test_names_and_stack_entries_that_are_left_out() -> None:
    from fastprof.views.names import (
        StringTable,
        demangle,
        display_names,
        is_filtered_name,
        keeps_stack_entry,
    )

    machinery = ("_record_function_enter", "_record_function_enter_new", "_record_function_exit")
    left_out = [f"profiler::{name}" for name in machinery]
    left_out += ["aten::is_leaf", "aten::output_nr", "aten::_version", "[memory]", "[OutOfMemory]"]
    assert all(map(is_filtered_name, left_out)) and not is_filtered_name("aten::mm")
    own = (
        "torch/autograd/__init__.py(1): _make_grads", "torch/autograd/__init__.py(2): backward",
        "torch/tensor.py(3): backward", "torch/testing/_internal/common_utils.py(4): prof_callable",
        "torch/testing/_internal/common_utils.py(5): prof_func_call",
        "torch/testing/_internal/common_utils.py(6): prof_meth_call",
    )  # fmt: skip
    assert not any(map(keeps_stack_entry, own))
    for kept in ("model.py(3): backward", "torch/tensor.py(3): forward", "common_utils.py(1): f"):
        assert keeps_stack_entry(kept)
    shown = display_names(["ProfilerStep#12", "ProfilerStep", "_Z3addii", "_Zodd", "op", ""])
    assert shown == ["ProfilerStep*", "ProfilerStep", "add(int, int)", "_Zodd", "op", ""]
    assert demangle("_Z3add\ud800") == "_Z3add\ud800" and demangle("__Z3addii") != ""
    table = StringTable()
    assert (table["_Z3addii"], table["i"], dict(table)) == (
        "add(int, int)", "i", {"_Z3addii": "add(int, int)", "i": "i"},
    )  # fmt: skip


def test_an_unknown_field_of_sites_names_the_known_ones() -> None:
    for field in ("colour", "name"):
        with pytest.raises(
            errors.ValueError, match=f"site field {field!r}. Use one of category, file"
        ):
            SiteTable(["a"], **{field: ["b"]})
    with pytest.raises(errors.ValueError, match="'file' has 1 values for 2 sites"):
        SiteTable(["a", "b"], file=["f"])
