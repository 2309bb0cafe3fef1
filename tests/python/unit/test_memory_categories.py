# SPDX-License-Identifier: Apache-2.0
"""Memory categories on tables written by hand: two training steps of a line, described op by op."""

from __future__ import annotations

import gzip
import json
import pickle
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fastprof
from fastprof import errors
from fastprof.analysis import explain, memory_report
from fastprof.analysis.memory_categories import CATEGORY_ORDER, Action, Category, MemoryProfile
from fastprof.analysis.memory_categories.origins import (
    explain_peak,
    leaks,
    longest_lived_temporaries,
    origin_of,
)
from fastprof.analysis.memory_categories.storages import can_categorise, read_steps
from fastprof.analysis.memory_categories.totals import category_totals, live_at, reconcile
from fastprof.base.record_scope import RecordScope
from fastprof.exporters.category_timeline import export_category_timeline
from fastprof.exporters.memory_snapshot import memory_snapshot, write_snapshot
from fastprof.model.table import CodedColumn, EventKind, EventTable
from fastprof.report.dataset import make_dataset
from fastprof.views import EventList

T0 = 1_000_000_000


class Written:
    """Writes rows in begin order; a row lasts until its `with` block ends. Addresses stand for themselves."""

    def __init__(self) -> None:
        self.rows: list[dict[str, Any]] = []
        self.open: list[int] = []
        self.now = T0

    def _row(self, **values: Any) -> int:
        self.now += 1000
        parent = self.open[-1] if self.open else -1
        self.rows.append({"start": self.now, "end": self.now, "parent": parent, **values})
        return len(self.rows) - 1

    def __call__(self, name: str, *inputs: int, backward: bool = False, user: bool = False) -> Any:
        scope = RecordScope.BACKWARD_FUNCTION if backward else RecordScope.FUNCTION
        storages = [[address, 8] if address else [] for address in inputs]
        row = self._row(
            name=name,
            category="user_annotation" if user else "cpu_op",
            scope=int(RecordScope.USER_SCOPE if user else scope),
            storages=storages or None,
            memory=None,
        )
        self.open.append(row)
        return self

    def __enter__(self) -> Written:
        return self

    def __exit__(self, *_: object) -> None:
        self.now += 1000
        self.rows[self.open.pop()]["end"] = self.now

    def memory(self, address: int, size: int) -> Written:
        self._row(
            name="[memory]", category="cpu_instant_event", scope=0, storages=None,
            memory=(address, size),
        )  # fmt: skip
        return self

    def op(self, name: str, *inputs: int, makes: int = 0, size: int = 100) -> Written:
        """A whole op that allocates its result."""
        with self(name, *inputs):
            if makes:
                self.memory(makes, size)
        return self

    def table(self) -> EventTable:
        kinds = [EventKind.MEMORY if row["memory"] else EventKind.RANGE for row in self.rows]
        words: list[int] = []
        payload = []
        for row in self.rows:
            payload.append(len(words) if row["memory"] else 0xFFFFFFFF)
            if row["memory"]:
                words += [*row["memory"], 0, 0]
        return EventTable(
            {
                "start_ns": [row["start"] for row in self.rows],
                "end_ns": [row["end"] for row in self.rows],
                "parent": [row["parent"] for row in self.rows],
                "site": range(len(self.rows)),
                "kind": kinds,
                "payload": payload,
            },
            sites=[
                fastprof.Site(
                    row["name"], category=row["category"], scope=row["scope"], kind=int(kind),
                    device_type=0,
                )
                for row, kind in zip(self.rows, kinds, strict=True)
            ],
            coded={"input_storages": CodedColumn.encode([row["storages"] for row in self.rows])},
            payload_words=np.array(words or [0], np.int64).view(np.uint64),
            t0_ns=T0,
            process_name="<b>train",
        )  # fmt: skip


# Addresses of a step.
WEIGHT, DATA, PRODUCT, LOSS, GRADIENT, SEED, MOMENTUM, SCRATCH, INNER, LEFT = range(1, 11)


def train(steps: int = 2, leak: bool = False) -> Written:
    """loss = (weight * data).sum(); backward; momentum is made in the first step; weight += momentum."""
    program = Written()
    for step in range(steps):
        with program(f"ProfilerStep#{step}", user=True):
            program.op("aten::randn", makes=DATA, size=40)
            program.op("aten::detach", DATA)
            program.op("aten::mul", WEIGHT, DATA, makes=PRODUCT, size=200)
            if leak:
                program.op("aten::clone", PRODUCT, makes=LEFT + step, size=50)
                program.op("aten::detach", LEFT + step)
            with program("aten::mean", PRODUCT):
                program.memory(INNER, 16)
                program.op("aten::div_", INNER)
                program.memory(INNER, -16)
                program.memory(LOSS, 4)
            program.op("aten::ones_like", LOSS, makes=SEED, size=4)
            with program("SumBackward0", SEED, backward=True):
                program.op("aten::expand", SEED)
            with program("MulBackward0", SEED, backward=True):
                program.op("aten::mul", SEED, DATA, makes=GRADIENT, size=80)
            with program("torch::autograd::AccumulateGrad", GRADIENT, backward=True):
                program.op("aten::detach", GRADIENT)
            program.memory(SEED, -4)
            with program("Optimizer.step#SGD.step", user=True):
                if step == 0:
                    program.op("aten::clone", GRADIENT, makes=MOMENTUM, size=80)
                else:
                    program.op("aten::add_", MOMENTUM, GRADIENT)
                program.op("aten::mul", MOMENTUM, makes=SCRATCH, size=80)
                program.op("aten::add_", WEIGHT, SCRATCH)
                program.memory(SCRATCH, -80)
            program.memory(GRADIENT, -80)
            program.memory(PRODUCT, -200).memory(LOSS, -4).memory(DATA, -40)
    return program


def categories_of(profile: MemoryProfile, address: int) -> list[Category | None]:
    """Return the categories of version 0 of each storage at an address, in the order of time."""
    return [profile.category(s.index, 0) for s in profile.storages if s.address == address]


def test_each_category_follows_from_the_flow() -> None:
    profile = MemoryProfile(train().table())
    assert categories_of(profile, WEIGHT) == [Category.PARAMETER]
    assert categories_of(profile, DATA) == [Category.INPUT] * 2
    assert categories_of(profile, PRODUCT) == [Category.ACTIVATION] * 2
    assert categories_of(profile, LOSS) == [Category.ACTIVATION] * 2
    assert categories_of(profile, GRADIENT) == [Category.GRADIENT] * 2
    assert categories_of(profile, MOMENTUM) == [Category.OPTIMIZER_STATE]
    assert categories_of(profile, INNER) == [Category.TEMPORARY] * 2
    (weight,) = (s for s in profile.storages if s.address == WEIGHT)
    assert weight.created_ns is None and weight.size_bytes == 8
    versions = [e.version for e in profile.timeline if e.storage == weight.index]
    assert versions == [0, 0, 1]  # preexisting, then one write a step


def test_sums_reconcile_to_the_byte() -> None:
    profile = MemoryProfile(train().table())
    (sums,) = reconcile(profile)
    assert (sums.in_use_at_begin, sums.allocated) == (8, 2 * (40 + 200 + 16 + 4 + 4 + 80 + 80) + 80)
    assert sums.in_use_at_begin + sums.allocated - sums.freed == sums.in_use_at_end == 8 + 80
    (totals,) = category_totals(profile)
    assert int(totals.total[-1]) == sums.in_use_at_end
    assert (totals.bytes >= 0).all()
    for at in range(len(totals.time_ns)):
        live = live_at(profile, "cpu:0", int(totals.time_ns[at]))
        assert sum(one.size_bytes for one in live) == int(totals.total[at])


def test_the_peak_is_told_by_category_and_origin() -> None:
    profile = MemoryProfile(train().table())
    parts = explain_peak(profile)
    (totals,) = category_totals(profile)
    assert sum(part.size_bytes for part in parts) == int(totals.total.max())
    assert (parts[0].category, parts[0].size_bytes) == (Category.ACTIVATION, 200)
    assert parts[0].origin.ranges == ("ProfilerStep#0", "aten::mul")
    weight = next(part for part in parts if part.category is Category.PARAMETER)
    assert str(weight.origin) == "before the recording"
    assert explain_peak(profile, "cuda") == []


def test_leaks_are_what_outlives_the_next_step() -> None:
    assert leaks(MemoryProfile(train(3).table())) == []
    found = leaks(MemoryProfile(train(3, leak=True).table()))
    assert [(one.size_bytes, one.count) for one in found] == [(50, 1), (50, 1)]
    assert {step for one in found for step in one.steps} == {0, 1}
    assert all(one.origin.ranges[-1] == "aten::clone" for one in found)
    with pytest.raises(errors.ValueError, match="step"):
        leaks(MemoryProfile(train(1).table()))
    with pytest.raises(errors.ValueError, match="1 or more"):
        leaks(MemoryProfile(train(3).table()), 0)


def test_temporaries_are_listed_by_bytes_times_life() -> None:
    profile = MemoryProfile(train().table())
    found = longest_lived_temporaries(profile, 4)
    assert profile.storages[found[0][0]].address == PRODUCT
    costs = [profile.storages[s].size_bytes * life for s, life, _ in found]
    assert costs == sorted(costs, reverse=True) and len(costs) == 4
    assert found[0][2] == origin_of(profile, found[0][0])


def test_an_address_that_is_used_again_is_another_storage() -> None:
    program = Written()
    program.memory(7, 10).memory(7, -10).memory(7, 30)
    program.op("aten::neg", 7)
    profile = MemoryProfile(program.table())
    assert [(s.size_bytes, s.is_input) for s in profile.storages] == [(10, False), (30, True)]
    assert [e.action for e in profile.timeline] == [Action.CREATE, Action.DESTROY, Action.CREATE]


@pytest.mark.parametrize(
    ("inner", "is_gradient"), [("aten::detach", True), ("aten::add_", True), ("aten::neg", False)]
)
def test_gradients_are_kept_or_added_to(inner: str, is_gradient: bool) -> None:
    program = Written()
    with program("ProfilerStep#0", user=True):
        program.op("aten::clone", makes=7)
        with program("torch::autograd::AccumulateGrad", 7, backward=True):
            program.op(inner, 7)
    (found,) = categories_of(MemoryProfile(program.table()), 7)
    assert (found is Category.GRADIENT) == is_gradient


def test_the_raw_file_has_both_versions_of_a_change(tmp_path: Path) -> None:
    program = Written()
    with program("ProfilerStep#0", user=True):
        program.op("aten::zeros", makes=7, size=10)
        program.op("aten::add_", 7)
    profile = MemoryProfile(program.table())
    export_category_timeline(profile, tmp_path / "m.raw.json")
    raw = json.loads((tmp_path / "m.raw.json").read_text())
    number = {category: i for i, category in enumerate(CATEGORY_ORDER)}
    before, after = (number[profile.category(0, version)] for version in (0, 1))
    assert [entry[1:] for entry in raw if entry[1] == Action.INCREMENT_VERSION.value] == [
        [Action.INCREMENT_VERSION.value, -10, before],
        [Action.INCREMENT_VERSION.value, 10, after],
    ]


def test_explain_names_the_largest_category_of_the_peak() -> None:
    events = EventList.from_table(train().table())
    (peak,) = explain(events).memory
    (device,) = memory_report(events).devices
    largest = max((size, name) for name, size in device.categories.items())
    assert len(device.categories) > 1 and max(device.categories) != largest[1]
    assert f"; {100 * largest[0] / device.peak_bytes:.0f} % {largest[1]};" in peak.text


def test_exported_files(tmp_path: Path) -> None:
    profile = MemoryProfile(train().table())
    for name in ("m.json", "m.json.gz", "m.raw.json", "m.raw.json.gz", "m.html"):
        export_category_timeline(profile, tmp_path / name)
    times, sizes = json.loads((tmp_path / "m.json").read_text())
    assert json.loads(gzip.decompress((tmp_path / "m.json.gz").read_bytes())) == [times, sizes]
    (totals,) = category_totals(profile)
    assert times == sorted(times) and sizes[-1] == [0, *totals.bytes[-1].tolist()]
    raw = json.loads((tmp_path / "m.raw.json").read_text())
    assert sum(size for _, _, size, _ in raw) == 88
    assert {action for _, action, _, _ in raw} == {1, 2, 3, 4}
    page = (tmp_path / "m.html").read_text()
    assert "<b>train" not in page and "&lt;b&gt;train" in page and "<script" not in page
    assert not re.search(r"(?:href|src)=|url\(|@import", page)
    assert len(re.findall("<polygon", page)) >= 5 and "time in ms" in page
    assert "ProfilerStep#0 &gt; aten::mul" in page


@pytest.mark.parametrize("origins", [39, 40, 41, 45])
def test_the_page_lists_forty_origins_of_the_peak(tmp_path: Path, origins: int) -> None:
    program = Written()
    with program("ProfilerStep#0", user=True):
        for i in range(origins):
            program.op(f"aten::op{i}", makes=100 + i, size=1000 + i)
    export_category_timeline(MemoryProfile(program.table()), tmp_path / "m.html")
    page = (tmp_path / "m.html").read_text()
    assert len(re.findall(r"&gt; aten::op\d+", page)) == min(origins, 40)
    more = f"<td>{origins - 40} more origins</td>"
    assert (more in page) == ("more origins" in page) == (origins > 40)


def test_refusals_say_what_to_do(tmp_path: Path) -> None:
    plain = EventTable({"start_ns": [1], "end_ns": [2], "site": [0]}, sites=[fastprof.Site("a")])
    with pytest.raises(errors.ValueError, match="profile_memory=True"):
        MemoryProfile(plain)
    profile = MemoryProfile(train().table())
    with pytest.raises(errors.ValueError, match="only of cpu:0"):
        export_category_timeline(profile, tmp_path / "m.json", "cuda:0")
    with pytest.raises(errors.ValueError, match="unknown suffix"):
        export_category_timeline(profile, tmp_path / "m.txt")


def test_the_report_has_the_peak_by_category() -> None:
    table = train().table()
    data = make_dataset(EventList.from_table(table))
    (device,) = data.head["memory"]
    strings = data.head["strings"]
    (totals,) = category_totals(MemoryProfile(table))
    sizes = {strings[name]: size for name, size in device["peak"]["categories"]}
    assert sum(sizes.values()) == device["peak"]["total"] == int(totals.total.max())
    assert sizes["activation"] == 204 and sizes["parameter"] == 8
    assert sum(part[3] for part in device["peak"]["parts"]) == device["peak"]["total"]
    category, ranges, frame, size, count = device["peak"]["parts"][0]
    assert (strings[category], strings[ranges]) == ("activation", "ProfilerStep#0 > aten::mul")
    assert (strings[frame], size, count) == ("", 200, 1)


@pytest.mark.parametrize("hostile", [[["a", "b"]], [[1, 2, 3]], [[None]], [[[1, "x"], [2]]], [5]])
def test_values_of_other_types_in_a_file_are_passed_over(hostile: list[Any]) -> None:
    program = Written()
    program.memory(7, 10)
    with program("aten::neg", 7):
        pass
    program.rows[-1]["storages"] = hostile
    (storage,) = MemoryProfile(program.table()).storages
    assert not storage.is_input


def snapshot(table: EventTable, path: Path, device: str | None = None) -> dict[str, Any]:
    write_snapshot(memory_snapshot(table, MemoryProfile(table), device), path)
    found: dict[str, Any] = pickle.loads(path.read_bytes())
    return found


def test_a_snapshot_has_the_allocations_and_what_is_left(tmp_path: Path) -> None:
    program = Written()
    with program("step", user=True):
        program.op("aten::one", makes=WEIGHT, size=1 << 20)
        program.op("aten::two", WEIGHT, makes=DATA, size=(1 << 20) + 1)
        program.memory(WEIGHT, -(1 << 20))
    table = program.table()
    stacks = CodedColumn.encode(
        [None, ["f.py(12): inner", "odd frame", "g.py(x): outer"], *[None] * 4]
    )
    found = snapshot(
        table.with_columns(coded={**table.coded, "stack": stacks}), tmp_path / "s.pickle"
    )
    stack = [
        {"name": "inner", "filename": "f.py", "line": 12},
        {"name": "odd frame", "filename": "??", "line": 0},
        {"name": "outer", "filename": "g.py", "line": 0},
    ]
    first = [{"name": "aten::one [unknown]", "filename": "??", "line": 0}, *stack]
    second = [{"name": "aten::two [unknown]", "filename": "??", "line": 0}]
    allocated = {"addr": WEIGHT, "size": 1 << 20, "stream": 0, "frames": first}
    assert found["device_traces"] == [
        [
            {"action": "alloc", "time_us": (T0 + 3000) // 1000, **allocated},
            {"action": "alloc", "addr": DATA, "size": (1 << 20) + 1, "stream": 0, "frames": second,
             "time_us": (T0 + 6000) // 1000},
            {"action": "free_requested", "time_us": (T0 + 8000) // 1000, **allocated},
            {"action": "free_completed", "time_us": (T0 + 8000) // 1000, **allocated},
        ]
    ]  # fmt: skip
    size = (1 << 20) + 1
    assert found["segments"] == [
        {
            "address": DATA, "total_size": size, "allocated_size": size, "active_size": size,
            "requested_size": size, "device": 0, "stream": 0, "segment_type": "large",
            "segment_pool_id": (0, 0), "is_expandable": False, "frames": second,
            "blocks": [{"address": DATA, "size": size, "requested_size": size,
                        "state": "active_allocated", "frames": second}],
        }
    ]  # fmt: skip


def test_training_steps() -> None:
    """A step ends with the optimizer's last write to the weight."""
    steps = MemoryProfile(train().table()).training_steps
    assert steps == [(T0, T0 + 41_000), (T0 + 41_000, T0 + 89_000)]


def test_a_snapshot_names_the_category_of_each_block(tmp_path: Path) -> None:
    found = snapshot(train().table(), tmp_path / "s")
    assert [segment["frames"][0]["name"] for segment in found["segments"]] == [
        "aten::clone [optimizer state]", "before the recording [parameter]",
    ]  # fmt: skip


def test_no_tensor_lies_in_the_memory_of_pythons_allocators() -> None:
    """Their addresses are of the same process: the same number is another piece of memory."""
    program = train()
    own = program.table()
    assert can_categorise(own)
    python = EventTable(
        own.to_dict(),
        sites=[site._replace(function="python:obj") if site.kind == EventKind.MEMORY else site for site in own.sites],
        coded=own.coded, payload_words=own.payload_words, t0_ns=T0,
    )  # fmt: skip
    assert not can_categorise(python)
    with pytest.raises(fastprof.errors.ValueError, match="contains no allocations"):
        read_steps(python)
