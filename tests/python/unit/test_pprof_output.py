# SPDX-License-Identifier: Apache-2.0
"""pprof output, read by protobuf with the messages of profile.proto."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fastprof
from fastprof.exporters.pprof import pprof_profile
from fastprof.model.table import EventTable, Site

pytestmark = pytest.mark.integrations  # protobuf comes with perfetto

# Message -> (field, number, type): i: int64, s: text, else a message; *: repeated.
MESSAGES = {
    "ValueType": (("type", 1, "i"), ("unit", 2, "i")),
    "Label": (("key", 1, "i"), ("str", 2, "i")),
    "Sample": (("location_id", 1, "i*"), ("value", 2, "i*"), ("label", 3, "Label*")),
    "Line": (("function_id", 1, "i"), ("line", 2, "i")),
    "Location": (("id", 1, "i"), ("line", 4, "Line*")),
    "Function": (("id", 1, "i"), ("name", 2, "i"), ("filename", 4, "i"), ("start_line", 5, "i")),
    "Profile": (
        ("sample_type", 1, "ValueType*"), ("sample", 2, "Sample*"), ("location", 4, "Location*"),
        ("function", 5, "Function*"), ("string_table", 6, "s*"), ("duration_nanos", 10, "i"),
        ("default_sample_type", 14, "i"),
    ),
}  # fmt: skip


def parsed(data: bytes) -> Any:
    from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

    file = descriptor_pb2.FileDescriptorProto(name="profile.proto", package="p", syntax="proto3")
    for name, fields in MESSAGES.items():
        message = file.message_type.add(name=name)
        for field, number, kind in fields:
            added = message.field.add(name=field, number=number, label=3 if kind[-1] == "*" else 1)
            base = kind.rstrip("*")
            added.type = {"i": 3, "s": 9}.get(base, 11)
            if added.type == 11:
                added.type_name = f".p.{base}"
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    profile = message_factory.GetMessageClass(pool.FindMessageTypeByName("p.Profile"))()
    profile.ParseFromString(data)
    return profile


def test_stacks_with_their_counts_and_self_times() -> None:
    table = EventTable(
        {"start_ns": [0, 10, 30, 200], "end_ns": [100, 20, 90, 250], "site": [0, 1, 1, 0], "parent": [-1, 0, 0, -1]},
        sites=[Site("load"), Site("parse", file="a.py", line=7)],
    )  # fmt: skip
    profile = parsed(pprof_profile(table))
    texts, functions = profile.string_table, {each.id: each for each in profile.function}
    places = {each.id: each.line[0] for each in profile.location}
    found = {
        tuple(texts[functions[places[i].function_id].name] for i in sample.location_id): list(
            sample.value
        )
        for sample in profile.sample
    }
    assert found == {("load",): [2, 80], ("parse", "load"): [2, 70]}
    assert [(texts[t.type], texts[t.unit]) for t in profile.sample_type] == [
        ("calls", "count"), ("time", "nanoseconds"),
    ]  # fmt: skip
    assert texts[0] == "" and texts[profile.default_sample_type] == "time"
    (parse,) = [each for each in profile.function if texts[each.name] == "parse"]
    assert (texts[parse.filename], parse.start_line) == ("a.py", 7)
    assert {texts[label.key] for sample in profile.sample for label in sample.label} == {"thread"}


def test_deep_stacks_are_summed_below_a_level() -> None:
    depth = 20_000
    start = np.arange(depth)
    table = EventTable(
        {"start_ns": start, "end_ns": 2 * depth - start, "site": np.zeros(depth, np.int64), "parent": start - 1},
        sites=[Site("f")],
    )  # fmt: skip
    with pytest.warns(UserWarning, match="nest up to 20000 deep"):
        profile = parsed(pprof_profile(table))
    assert sum(sample.value[0] for sample in profile.sample) == depth
    assert sum(sample.value[1] for sample in profile.sample) == 2 * depth


def test_a_sample_has_its_place_once(tmp_path: Path) -> None:
    sites = [Site("burn (a.py:2)", "sample", "/srv/a.py", "burn", 2)]
    table = EventTable({"start_ns": [0], "end_ns": [1000], "site": [0]}, sites=sites)
    table.export(tmp_path / "a.pprof")
    assert list(fastprof.load(tmp_path / "a.pprof").names) == ["burn (a.py:2)"]
