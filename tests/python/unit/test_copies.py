# SPDX-License-Identifier: Apache-2.0
"""Copies and pickles of results and ranges are equal to their originals, and independent of them."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from processes import python

import fastprof
from fastprof import errors

COPIES: list[Callable[[Any], Any]] = [
    copy.deepcopy,
    lambda value: pickle.loads(pickle.dumps(value)),
]


@pytest.fixture
def profile() -> fastprof.profile:
    with fastprof.profile(
        with_stack=True, python_calls=False, record_shapes=True, profile_memory=True
    ) as result:
        for step in range(3):
            with fastprof.record_function("outer", step=step, name_="x", sizes=[1, 2]):
                with fastprof.record_function("inner", shapes=[[2, 3]]):
                    fastprof.report_memory_usage(1, 64, 64, 0)
    return result


@pytest.mark.parametrize("copied", COPIES)
def test_tables(profile: fastprof.profile, copied: Callable[[Any], Any]) -> None:
    table = profile.event_table
    again = copied(table)
    assert again.column_names == table.column_names
    for name, column in table.to_dict().items():
        np.testing.assert_array_equal(again.column(name), column)
    for name, coded in table.coded.items():
        assert [again.coded[name][i] for i in range(len(table))] == [
            coded[i] for i in range(len(table))
        ]
    assert list(again.sites) == list(table.sites) and list(again.tracks) == list(table.tracks)
    assert list(copied(fastprof.EventTree.of(table)).self_ns) == list(
        fastprof.EventTree.of(table).self_ns
    )


@pytest.mark.parametrize("copied", COPIES)
def test_profiles_and_lists(
    profile: fastprof.profile, copied: Callable[[Any], Any], tmp_path: Any
) -> None:
    expected = profile.key_averages(group_by_stack_n=3).table()
    for again in (copied(profile), copied(copied(profile))):
        assert again.key_averages(group_by_stack_n=3).table() == expected
        again.export_chrome_trace(str(tmp_path / "t.json"))
        assert set(fastprof.load(tmp_path / "t.json").names) == set(profile.event_table.names)
        again.export_perfetto_trace(str(tmp_path / "t.pftrace"))
    events = profile.events()
    again = copied(events)
    assert [repr(e) for e in again] == [repr(e) for e in events]
    assert again[1].cpu_parent is again[0] or again[0].cpu_children == []
    again[0].name = "changed"  # of the copy alone
    assert events[0].name == "outer" and again.key_averages()[0].key == "changed"
    twice = copied(again)
    assert [e.name for e in twice] == [e.name for e in again]
    assert [e.cpu_parent and e.cpu_parent.name for e in twice] == [
        e.cpu_parent and e.cpu_parent.name for e in again
    ]
    averages = profile.key_averages()
    assert copied(averages).table() == averages.table()
    assert copied(averages[0]).key == averages[0].key
    assert copied(events[0]).time_range.elapsed_us() == events[0].time_range.elapsed_us()


def test_a_running_profile_is_not_copied() -> None:
    with fastprof.profile() as profile:
        with pytest.raises(errors.StateError, match="stop"):
            copy.deepcopy(profile)


class Named(fastprof.record_function):  # type: ignore[misc]
    def __init__(self, number: int) -> None:
        super().__init__(f"named {number}", number=number)
        self.number = number


@pytest.mark.parametrize("copied", [*COPIES, copy.copy])
def test_record_functions(copied: Callable[[Any], Any]) -> None:
    values: dict[str, Any] = {"i": -3, "f": 1.5, "b": True, "s": "text \ud800", "l": [1, 2]}
    ranges = [fastprof.record_function("r", **values), Named(7), fastprof.record_function("plain")]
    unsealed = [copied(r) for r in ranges]
    with fastprof.profile() as profile:
        for made in (*ranges, *unsealed):
            with made:
                open_copy = copied(made)  # the copy of an open range is a closed one
                with open_copy:
                    pass
                assert type(open_copy) is type(made) and open_copy.name == made.name
    assert copied(Named(7)).number == 7
    rows = {}
    for event in profile.events():
        rows.setdefault(event.name, set()).add(str(event.metadata_json) + str(event.kwinputs))
    assert set(rows) == {"r", "named 7", "plain"}
    assert all(len(texts) == 1 for texts in rows.values())


LOOK = """
import sys, fastprof
class Holder:
    def __init__(self):
        self.expression = sys.argv[1]
        with fastprof.profile() as self.profile:
            with fastprof.record_function("range"): pass
    def __del__(self):
        p = self.profile
        print(eval(self.expression))
holder = Holder()
"""


@pytest.mark.parametrize(
    "expression",
    [
        "p.key_averages().table()",
        "p.events()[0]",
        "p",
        "p.event_table.names",
        "p.events().to_columns()",
        "p.events()._repr_html_()",
    ],
)
def test_results_can_be_looked_at_during_the_shutdown(expression: str) -> None:
    result = python("-c", LOOK, expression)
    assert result.stderr == "" and "range" in result.stdout


def test_dir_shows_what_users_call(profile: fastprof.profile) -> None:
    names = dir(fastprof)
    assert "profile" in names and "load" in names and "errors" in names
    assert not [name for name in names if name.startswith("_") and name != "__version__"]
    assert not {"annotations", "TYPE_CHECKING", "import_module", "Any"} & set(names)
    assert {"name", "time_range", "cpu_children", "input_shapes"} <= set(dir(profile.events()[0]))


def test_a_copied_event_is_its_own(profile: fastprof.profile) -> None:
    """So lists of some of the events, which link copies, change nothing of the profile."""
    before = [(e.key, e.count, e.self_cpu_time_total) for e in profile.key_averages()]
    copied = copy.copy(profile.events()[0])
    copied.name = "renamed"
    copied.append_kernel("kernel", 0, 5.0)
    copied.append_cpu_child(copied)
    outer = fastprof.EventList(e for e in profile.events() if e.name == "outer")
    (alone,) = outer.key_averages()
    assert alone.self_cpu_time_total == alone.cpu_time_total
    assert [(e.key, e.count, e.self_cpu_time_total) for e in profile.key_averages()] == before
    assert profile.events()[0].kernels == [] and len(profile.events()[0].cpu_children) == 1


def test_added_attributes_are_kept(profile: fastprof.profile) -> None:
    events = profile.events()
    events[0].note = "mine"
    for again in (events, pickle.loads(pickle.dumps(events)), copy.deepcopy(list(events))):
        assert again[0].note == "mine"
