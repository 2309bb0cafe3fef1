# SPDX-License-Identifier: Apache-2.0
"""Traces of fastprof and of torch.profiler of the same work, compared field by field."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from known_torch import OWN_MEMBERS, needs_inputs, torch

import fastprof

pytestmark = pytest.mark.integrations

WINDOW = [
    "PyTorch Profiler (0)",
    "process_sort_index",
    "Iteration Start: PyTorch Profiler",
    "Record Window End",
]
IDS = ("External id", "Record function id", "Ev Idx")


@pytest.fixture(scope="module")
def work() -> Callable[[], None]:
    torch.set_num_threads(1)
    layer = torch.nn.Linear(4, 4)
    data = torch.randn(2, 4)

    def step() -> None:
        with torch.profiler.record_function("step"):
            layer(data).sum().backward()

    step()  # the first call allocates gradients
    return step


def traced(
    package: Any, work: Callable[[], None], path: Path, **options: Any
) -> tuple[Any, dict[str, Any]]:
    """Return the profile of one step and its Chrome trace."""
    cpu = package.ProfilerActivity.CPU
    with package.profile(activities=[cpu], **options) as profile:
        work()
    profile.export_chrome_trace(str(path))
    return profile, json.loads(path.read_text())


def ranges_of(trace: dict[str, Any]) -> list[dict[str, Any]]:
    return [e for e in trace["traceEvents"] if e["ph"] == "X" and e["cat"] != "Trace"]


def ids_inside_their_name(trace: dict[str, Any]) -> set[int]:
    """The ids of ops whose parent, on the same thread, has the same name."""
    found = set()
    open_ranges: dict[Any, list[dict[str, Any]]] = {}
    for event in sorted(ranges_of(trace), key=lambda e: (e["ts"], -e["dur"])):
        around = open_ranges.setdefault(event["tid"], [])
        while around and around[-1]["ts"] + around[-1]["dur"] <= event["ts"]:
            around.pop()
        if event["cat"] == "cpu_op" and around and around[-1]["name"] == event["name"]:
            found.add(event["args"]["External id"])
        around.append(event)
    return found


@needs_inputs
def test_the_same_args_as_torchs(work: Callable[[], None], tmp_path: Path) -> None:
    options = {"record_shapes": True, "profile_memory": True}
    _, theirs = traced(torch.profiler, work, tmp_path / "torch.json", **options)
    _, ours = traced(fastprof, work, tmp_path / "fastprof.json", **options)
    pairs = list(zip(ranges_of(ours), ranges_of(theirs), strict=True))
    first = {}  # sequence numbers go on from one profile to the next
    for which, events in (("ours", ranges_of(ours)), ("theirs", ranges_of(theirs))):
        first[which] = min(
            e["args"]["Sequence number"] for e in events if "Sequence number" in e["args"]
        )
    for own, other in pairs:
        assert (own["name"], own["cat"]) == (other["name"], other["cat"])
        shown = {key: v for key, v in other["args"].items() if key in IDS or key not in OWN_MEMBERS}
        assert own["args"].keys() == shown.keys(), own["name"]
        for key, value in shown.items():
            mine = own["args"][key]
            if key == "Sequence number":
                assert mine - first["ours"] == value - first["theirs"]
            elif key == "Fwd thread id":  # each profiler numbers threads by itself
                assert (mine > 0) == (value > 0)
            elif key not in ("External id", "Ev Idx"):
                assert mine == value, (own["name"], key)
    engine = [own for own, _ in pairs if own["name"].startswith("autograd::engine")]
    assert len([e for e in engine if e["args"].get("Fwd thread id", 0) > 0]) >= 2
    for events in (ours, theirs):
        listed = [e["args"] for e in events["traceEvents"] if "Ev Idx" in e.get("args", {})]
        assert len({args["Ev Idx"] for args in listed}) == len(listed)
        external = [args["External id"] for args in listed if "External id" in args]
        assert len(set(external)) == len(external) and min(external) > 0
    memory = [e["args"].keys() for e in ours["traceEvents"] if e["name"] == "[memory]"]
    torchs = [e["args"].keys() for e in theirs["traceEvents"] if e["name"] == "[memory]"]
    assert memory and memory[0] == torchs[0] - {"finished"}  # of every memory record of Kineto


def test_the_same_window(work: Callable[[], None], tmp_path: Path) -> None:
    for package in (torch.profiler, fastprof):
        _, trace = traced(package, work, tmp_path / "trace.json")
        span, sort, start, end = trace["traceEvents"][-4:]
        assert [e["name"] for e in (span, sort, start, end)] == WINDOW
        assert span["cat"] == "Trace" and sort["args"]["sort_index"] == 0x20000000
        assert (start["s"], end["s"], start["ph"], end["ph"]) == ("g", "g", "i", "i")
        assert start["ts"] <= span["ts"] and span["ts"] + span["dur"] <= end["ts"]
        assert all(start["ts"] <= e["ts"] <= end["ts"] for e in ranges_of(trace))


def test_events_have_the_traces_external_ids(work: Callable[[], None], tmp_path: Path) -> None:
    for options in ({}, {"profile_memory": True}, {"with_stack": True}):
        profile, trace = traced(fastprof, work, tmp_path / "trace.json", **options)
        events = [e for e in profile.events() if e.name != "[memory]"]
        named = {e["args"]["External id"]: e["name"] for e in ranges_of(trace)}
        shown = {e.external_id: e.name for e in events}
        assert shown.items() <= named.items()
        # As in PyTorch, an op directly inside an op of the same name has no event. All others have one, calls too.
        assert named.keys() - shown.keys() == ids_inside_their_name(trace)


@pytest.mark.parametrize("package", [torch.profiler, fastprof], ids=["torch", "fastprof"])
def test_ids_survive_reading_and_writing(
    work: Callable[[], None], tmp_path: Path, package: Any
) -> None:
    _, trace = traced(package, work, tmp_path / "first.json", record_shapes=True)
    table = fastprof.load(tmp_path / "first.json")
    given = [(e["name"], *(e["args"][i] for i in IDS)) for e in ranges_of(trace)]
    read = sorted(
        zip(table.column("external_id").tolist(), map(table.name, range(len(table))), strict=False)
    )
    assert [pair for pair in read if pair[0] > 0] == sorted((g[1], g[0]) for g in given)
    fastprof.exporters.trace_writers.write_chrome_trace(table, tmp_path / "second.json")
    again = json.loads((tmp_path / "second.json").read_text())
    assert [(e["name"], *(e["args"][i] for i in IDS)) for e in ranges_of(again)] == given
    assert [e["name"] for e in again["traceEvents"]].count("Record Window End") == 1
    # In a file without External ids, ids are row numbers again.
    fastprof.save(table, tmp_path / "own.fastprof")
    own = fastprof.load(tmp_path / "own.fastprof")
    assert own.column("external_id").tolist() == table.column("external_id").tolist()


def test_without_an_observer_no_op_is_numbered(work: Callable[[], None]) -> None:
    with fastprof.profile() as profile:
        work()
    assert not profile.event_table.has("record_function_id")


def test_rows_of_python_functions_have_torchs_args(tmp_path: Path) -> None:
    def inner() -> None:
        torch.ones(1)

    def outer() -> None:
        inner()

    def args_of(package: Any, name: str, **options: Any) -> dict[str, Any]:
        _, trace = traced(package, outer, tmp_path / "trace.json", with_stack=True, **options)
        calls = [e for e in trace["traceEvents"] if e.get("cat") == "python_function"]
        names = {e["args"]["Python id"]: e["name"].rpartition(": ")[2] for e in calls}
        (args,) = (e["args"] for e in calls if e["name"].endswith(f": {name}"))
        args["Python parent id"] = names[args["Python parent id"]]
        if "Call stack" in args:
            stack = args["Call stack"].strip(";").split(";")
            args["Call stack"] = [frame.rpartition(": ")[2] for frame in stack]
        # torch numbers the threads by the interpreter's list, newest first: threads of other tests may be in it.
        # A thread that ended meanwhile is not counted by `threading` any more.
        if "Python thread" in args:
            args["Python thread"] = int(args["Python thread"] < 0)
        for key in ("Python id", *IDS, "Call line"):
            args.pop(key, None)
        return args

    def config() -> Any:
        return torch._C._profiler._ExperimentalConfig(verbose=True)

    for name in ("inner", "outer"):
        ours = args_of(fastprof, name, experimental_config=config())
        assert ours == args_of(torch.profiler, name, experimental_config=config())
        assert ours.keys() == {"Python thread", "Python parent id", "Call stack"}
        assert args_of(fastprof, name).keys() == args_of(torch.profiler, name).keys()
