# SPDX-License-Identifier: Apache-2.0
"""The part of a profile that is about memory: which recording it reads, and what it hands on."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from fastprof import errors
from fastprof.analysis import memory_summary
from fastprof.analysis.memory_categories import origins, storages
from fastprof.exporters import category_timeline, memory_snapshot, memory_timeline
from fastprof.profiler.memory_results import MemoryResults

Calls = list[tuple[Any, ...]]


def result(name: str) -> Any:
    return SimpleNamespace(table=f"table of {name}", memory_profile=f"categories of {name}")


class Memory(MemoryResults):
    def __init__(self) -> None:
        self._recording = None
        self._stopping = False
        self._metadata = {"a": 1}
        self._results = [result("first"), result("last")]

    def _finished_results(self, while_running: bool = False) -> list[Any]:
        if not self._results:
            raise errors.StateError("nothing yet")
        return self._results


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> Calls:
    made: Calls = []
    for module, name in (
        (category_timeline, "export_category_timeline"),
        (memory_timeline, "export_memory_timeline"),
        (memory_snapshot, "memory_snapshot"),
        (memory_snapshot, "write_snapshot"),
        (memory_summary, "memory_report"),
        (origins, "leaks"),
    ):

        def called(*args: Any, name: str = name) -> Any:
            made.append((name, *args))
            return f"result of {name}"

        monkeypatch.setattr(module, name, called)
    monkeypatch.setattr(storages, "can_categorise", lambda table: table != "table of plain")
    return made


@pytest.mark.parametrize("gz", ["", ".gz"])
@pytest.mark.parametrize("device", [None, "cpu"])
def test_timelines_are_by_category_where_there_are_some(
    calls: Calls, gz: str, device: str | None
) -> None:
    memory = Memory()
    for suffix in (".json", ".raw.json", ".html", ".csv"):
        memory.export_memory_timeline("m" + suffix + gz, device)
    by_category = "export_category_timeline", "categories of last"
    assert calls[:3] == [
        (*by_category, f"m{s}{gz}", device) for s in (".json", ".raw.json", ".html")
    ]
    plain = "export_memory_timeline"
    assert calls[3:] == [(plain, "table of last", f"m.csv{gz}", device)]
    memory._results.append(result("plain"))
    memory.export_memory_timeline("m.json" + gz, device)
    assert calls[4:] == [(plain, "table of plain", f"m.json{gz}", device)]


def test_categories_leaks_and_reports(calls: Calls) -> None:
    memory = Memory()
    assert memory.memory_profile() == "categories of last"
    assert memory.memory_leaks() == memory.memory_leaks(3) == "result of leaks"
    assert memory.memory_report() == memory.memory_report("cpu") == "result of memory_report"
    assert calls == [
        ("leaks", "categories of last", 1), ("leaks", "categories of last", 3),
        ("memory_report", memory, None), ("memory_report", memory, "cpu"),
    ]  # fmt: skip


def test_snapshots_have_categories_where_there_are_some(calls: Calls) -> None:
    memory = Memory()
    assert memory.memory_snapshot("cuda:0") == "result of memory_snapshot"
    memory._results.append(result("plain"))
    memory.export_memory_snapshot("now.pickle")
    memory.export_memory_snapshot("now.pickle", "cpu")
    assert calls == [
        ("memory_snapshot", "table of last", "categories of last", "cuda:0"),
        ("memory_snapshot", "table of plain", None, None),
        ("write_snapshot", "result of memory_snapshot", "now.pickle"),
        ("memory_snapshot", "table of plain", None, "cpu"),
        ("write_snapshot", "result of memory_snapshot", "now.pickle"),
    ]


def recording(started: bool) -> Any:
    return SimpleNamespace(
        started=started, so_far=lambda metadata: SimpleNamespace(table="so far", given=metadata)
    )


def test_which_recording_a_snapshot_is_of() -> None:
    memory = Memory()
    assert memory._result_so_far().table == "table of last"
    memory._recording = recording(started=True)
    assert (memory._result_so_far().table, memory._result_so_far().given) == ("so far", {"a": 1})
    memory._recording = recording(started=False)  # prepared
    assert memory._result_so_far().table == "table of last"
    memory._stopping = True
    assert memory._result_so_far().table == "so far"
    memory._recording = None  # released already, on the thread that stops
    assert memory._result_so_far().table == "table of last"
    memory._results = []
    with pytest.raises(errors.StateError, match=r"another thread is stopping the profile\."):
        memory._result_so_far()
    memory._stopping = False
    with pytest.raises(errors.StateError, match="nothing yet"):
        memory._result_so_far()
