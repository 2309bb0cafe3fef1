# SPDX-License-Identifier: Apache-2.0
"""check_values: each kind of value in an imported table, at both ends of its range and just outside."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from fastprof import errors
from fastprof.base.device_type import DeviceType
from fastprof.importers.check_values import check_values
from fastprof.model.table import CodedColumn, EventTable, Site, Track


def table(columns: dict[str, Any] | None = None, **more: Any) -> EventTable:
    given = {"start_ns": [0], "end_ns": [9], "site": [0]}
    return EventTable(given | (columns or {}), **({"sites": [Site("a")]} | more))


def refused(what: str, *arguments: Any, **more: Any) -> None:
    with pytest.raises(errors.FormatError) as caught:
        check_values(table(*arguments, **more), "file")
    assert str(caught.value) == f"file: {what}"


@pytest.mark.parametrize(
    ("field", "first", "last"),
    [
        ("line", 0, 2**32 - 1),
        ("color", 0, 2**32 - 1),
        ("mask", 0, 2**32 - 1),
        ("kind", 0, 8),
        ("scope", 0, 9),
        ("device_type", -1, 20),
        ("device_index", -(2**15), 2**15 - 1),
    ],
)
def test_numbers_of_a_site(field: str, first: int, last: int) -> None:
    for value in (first, last):
        check_values(table(sites=[Site("a", **{field: value})]), "file")
    for value in (first - 1, last + 1):
        refused(
            f"site 1: {field} {value} is outside {first} to {last}",
            sites=[Site("a"), Site("b", **{field: value})],
        )


def test_arguments_of_a_site() -> None:
    names = tuple(f"n{i}" for i in range(13))
    check_values(table(sites=[Site("a", arg_names=names[:12], arg_types=(5,) * 12)]), "file")
    refused(
        "site 0: an argument type is outside 0 to 5",
        sites=[Site("a", arg_names=("n",), arg_types=(6,))],
    )
    refused(
        "site 0: an argument type is outside 0 to 5",
        sites=[Site("a", arg_names=("n",), arg_types=(-1,))],
    )
    refused("site 0: an argument name is not text", sites=[Site("a", arg_names=(3,))])  # type: ignore[arg-type]
    refused(
        "site 0: 2 argument types for 1 names",
        sites=[Site("a", arg_names=("n",), arg_types=(0, 0))],
    )


@pytest.mark.parametrize("name", ["pid", "tid"])
def test_ids_of_a_track(name: str) -> None:
    numbers = {"id": 1, "pid": 2, "tid": 3}
    for value in (-(2**63), 2**63 - 1):
        check_values(table(tracks=[Track(**(numbers | {name: value}))]), "file")
    for value in (-(2**63) - 1, 2**63):
        refused(
            "track 1: an id exceeds 64 bits", tracks=[Track(0), Track(**(numbers | {name: value}))]
        )


@pytest.mark.parametrize("name", ["t0_ns", "t1_ns", "clock_error_ns", "pid"])
def test_scalars(name: str) -> None:
    for value in (-(2**63), 2**63 - 1):
        check_values(table(**{name: value}), "file")
    for value in (-(2**63) - 1, 2**63):
        refused(f"{name} {value} exceeds 64 bits", **{name: value})


def test_drop_counts() -> None:
    check_values(table(dropped={"bound": 0, "other": 2**63 - 1}), "file")
    for value in (-1, 2**63):
        refused(f"dropped 'bound': {value} is not a count of events", dropped={"bound": value})


def test_device_types_and_scopes() -> None:
    last = int(max(DeviceType))
    check_values(table({"device_type": [last], "scope": [9]}), "file")
    for value in (-1, last + 1):
        refused("row 0: device_type is not a DeviceType", {"device_type": [value]})
    refused("a value of the column scope is not a RecordScope", {"scope": [10]})


@pytest.mark.parametrize(
    ("name", "good", "bad", "kind"),
    [
        ("overload_name", "out", 3, "text"),
        ("activity_type", "kernel", 3, "text"),
        ("metadata_json", "{}", 3, "text"),
        ("module_hierarchy", "top", 3, "text"),
        ("stack", ["f"], "f", "a list of texts"),
        ("stack", ("f",), [3], "a list of texts"),
        ("input_shapes", [[1]], 3, "a list"),
        ("concrete_inputs", (1,), {}, "a list"),
        ("structured_input_shapes", [[1]], "x", "a list"),
        ("structured_input_strides", [[1]], "x", "a list"),
        ("input_dtypes", ["float"], "x", "a list"),
        ("kwinputs", {"k": 1}, [1], "an object"),
        ("counters", {"cycles": 1}, [1], "an object"),
        ("event_metadata", {"stream": 1}, [1], "an object"),
    ],
)
def test_values_of_coded_columns(name: str, good: Any, bad: Any, kind: str) -> None:
    for value in (good, None):
        check_values(table(coded={name: CodedColumn.encode([value])}), "file")
    column = CodedColumn(np.zeros(1, np.int32), (good, bad))
    refused(f"{name}, value 1: {str(bad)!r} is not {kind}", coded={name: column})


def test_how_deep_values_nest() -> None:
    def nested(depth: int) -> Any:
        value: Any = []
        for level in range(depth - 1):
            value = [value] if level % 2 else {"k": value}
        return value

    for name in ("input_shapes", "kwinputs"):
        wrap = (lambda v: [v]) if name == "input_shapes" else (lambda v: {"k": v})
        good = CodedColumn(np.zeros(1, np.int32), (wrap(nested(64)),))
        check_values(table(coded={name: good}), "file")
        bad = CodedColumn(np.zeros(1, np.int32), (wrap(nested(65)),))
        refused(f"{name}, value 0 is nested too deeply", coded={name: bad})
