# SPDX-License-Identifier: Apache-2.0
"""kineto_results beside torch.profiler's own of the same program, and the code of others that reads them."""

from __future__ import annotations

import contextlib
import copy
import io
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="needs torch")

import fastprof  # noqa: E402
from fastprof.importers import load  # noqa: E402

pytestmark = pytest.mark.integrations

KITS = (torch.profiler, fastprof)


class Net(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = torch.nn.Linear(4, 8), torch.nn.Linear(8, 3)

    def forward(self, x: Any) -> Any:
        return self.second(self.first(x).relu())


def profiled(kit: Any, **options: Any) -> Any:
    """Return the profile of two training steps of a small network."""
    torch.manual_seed(0)
    net, x = Net(), torch.ones(2, 4)
    # Imports now: torch's tracer keeps the names of modules' code by address, which is freed after an import.
    with kit.record_function("step"):
        net(x).sum(dim=[0, 1]).backward()
    options = {"record_shapes": True, "profile_memory": True, **options}
    with kit.profile(activities=[kit.ProfilerActivity.CPU], **options) as prof:
        for _ in range(2):
            with kit.record_function("step"):
                net(x).sum(dim=[0, 1]).backward()
            torch.cat([x, x])
    return prof


def nodes(events: Any) -> list[Any]:
    """Return the nodes of an event tree, each after its parent."""
    return [one for event in events for one in (event, *nodes(event.children))]


def described(value: Any) -> Any:
    """Return an input of an op as plain values."""
    if isinstance(value, list):
        return [described(one) for one in value]
    if not isinstance(value, torch._C._profiler._TensorMetadata):
        return value
    return (
        value.sizes,
        value.strides,
        value.dtype,
        value.layout,
        value.device,
        value.storage_data_ptr is None,
    )


def row(node: Any) -> tuple[Any, ...]:
    """Return what a node says apart from times and addresses."""
    tag, fields = node.typed
    above = node.parent
    seen = (tag, node.name, None if above is None else above.name, len(node.children))
    assert tag == node.tag
    assert type(fields) is type(node.extra_fields)
    if tag == torch._C._profiler._EventType.Allocation:
        return (*seen, fields.alloc_size, fields.device, fields.id is None, fields.allocation_id is None)  # fmt: skip
    return (
        *seen,
        fields.scope,
        fields.sequence_number >= 0,
        [described(one) for one in fields.inputs],
    )


def test_the_event_tree_is_torchs() -> None:
    theirs, ours = (profiled(kit).profiler.kineto_results for kit in KITS)
    wanted, found = (
        [row(node) for node in nodes(one.experimental_event_tree())] for one in (theirs, ours)
    )
    assert found == wanted
    tree = nodes(ours.experimental_event_tree())
    assert len({node.id for node in tree}) == len(tree)
    assert all(isinstance(node, torch._C._profiler._ProfilerEvent) for node in tree)
    for node in tree:
        assert node.end_time_ns - node.start_time_ns == node.duration_time_ns >= 0
        assert node.parent is None or node.parent.start_time_ns <= node.start_time_ns
        assert node.parent is None or node in node.parent.children  # as pattern matchers look it up


ACCESSORS = (
    "name", "is_async", "shapes", "dtypes", "concrete_inputs", "kwinputs", "scope", "flops", "nbytes",
    "is_user_annotation", "is_python_function", "is_hidden_event", "linked_correlation_id",
    "structured_input_shapes", "structured_input_strides", "activity_type", "extra_meta",
    "device_type", "python_id", "python_parent_id", "python_module_id", "stack", "metadata_json",
    "device_index", "device_resource_id",
)  # fmt: skip


def test_the_events_are_torchs_and_parse_to_what_events_has() -> None:
    profiles = [profiled(kit, profile_memory=False) for kit in KITS]
    rows = []
    for prof in profiles:
        events = prof.profiler.kineto_results.events()
        starts = [event.start_ns() for event in events]
        assert starts == sorted(starts)
        assert starts[0] >= prof.profiler.kineto_results.trace_start_ns()
        assert all(event.start_thread_id() == event.end_thread_id() for event in events)
        assert all(event.end_ns() - event.start_ns() == event.duration_ns() for event in events)
        rows.append([[getattr(event, one)() for one in ACCESSORS] for event in events])
    assert rows[1] == rows[0]
    theirs, ours = profiles
    kineto = ours.profiler.kineto_results
    # As SpeechBrain does: parsed, copied, and made a list of torch's.
    trees = []
    for prof in profiles:
        parsed = prof.profiler._parse_kineto_results(prof.profiler.kineto_results)
        made = torch.autograd.profiler_util.EventList(copy.deepcopy(parsed), use_device=None)
        made._build_tree()
        assert "aten::addmm" in {average.key for average in made.key_averages()}
        trees.append(
            [(e.name, e.cpu_parent and e.cpu_parent.name, len(e.cpu_children)) for e in made]
        )
    assert trees[1] == trees[0]
    assert [name for name, *_ in trees[1]] == [e.name for e in ours.events()]
    # torch's own reading of our results.
    read = torch.autograd.profiler.profile()._parse_kineto_results(kineto)
    listed = {(e.name, e.id, e.time_range.start, e.time_range.end) for e in read}
    assert {
        (e.name, e.external_id, e.time_range.start, e.time_range.end) for e in ours.events()
    } <= listed
    assert ours.use_cuda is theirs.profiler.use_cuda is False


def test_results_exist_once_a_recording_has_ended(tmp_path: Path) -> None:
    with fastprof.profile() as prof:
        torch.ones(2)
        assert prof.profiler.kineto_results is None
    prof.profiler.kineto_results.save(str(tmp_path / "t.json"))
    assert "aten::ones" in set(load(tmp_path / "t.json").names)
    with pytest.raises(fastprof.errors.ValueError, match="kineto_results of a fastprof profile"):
        prof._parse_kineto_results(None)


def test_torchs_own_readers_read_ours() -> None:
    from torch.cuda import _memory_viz
    from torch.profiler import _pattern_matcher, _utils

    for kit in KITS:
        prof = profiled(kit, with_stack=True)
        key = next(
            k
            for k in _utils.BasicEvaluation(prof.profiler).metrics
            if k.event.name == "aten::addmm"
        )
        metrics = _utils.BasicEvaluation(prof.profiler).metrics[key]
        assert 0 <= metrics.self_time_ns < metrics.duration_time_ns
        text = io.StringIO()
        with contextlib.redirect_stdout(text):
            _pattern_matcher.report_all_anti_patterns(prof)
        assert "TorchTidy Report" in text.getvalue()
        assert "MemoryPlot" in _memory_viz.profile_plot(prof) or "html" in _memory_viz.profile_plot(
            prof
        )


def test_torchs_memory_profile_of_ours_has_the_timeline_of_its_own() -> None:
    found = []
    for kit in KITS:
        memory = profiled(kit, with_stack=True)._memory_profile()
        found.append(Counter((action.name, size) for _, action, _, size in memory.timeline))
    assert found[1] == found[0]


@pytest.mark.filterwarnings("ignore:.*metadata_json:FutureWarning")
def test_events_have_torchs_numbers_of_calls_places_and_metadata() -> None:
    config = torch._C._profiler._ExperimentalConfig(verbose=True, expose_kineto_event_metadata=True)
    rows = []
    for kit in KITS:
        net, x = Net(), torch.ones(2, 4)
        with kit.record_function("T", "1, 2"):
            net(x)
        with kit.profile(
            activities=[kit.ProfilerActivity.CPU], with_modules=True, with_stack=True,
            record_shapes=True, experimental_config=config,
        ) as prof:  # fmt: skip
            with kit.record_function("T", "1, 2"):
                net(x)
        events = prof.events()
        calls = {e.python_id: e for e in events if e.python_id >= 0}
        assert {e.is_python_function for e in calls.values()} == {True}
        found: list[Any] = []
        for event in events:
            if event.name.startswith("nn.Module: "):
                caller, seen = calls[event.python_parent_id], []
                assert caller.name in event.stack
                while caller.python_parent_id in calls:
                    seen += [caller.name] if caller.name.startswith("nn.Module: ") else []
                    caller = calls[caller.python_parent_id]
                found.append((event.name, event.python_module_id, seen, event.metadata_json))
                assert [name for name in event.stack if name.startswith("nn.Module: ")] == seen
            elif not event.is_python_function:
                assert "Ev Idx" in event.metadata_json
                found.append(
                    (
                        event.name,
                        event.input_shapes,
                        event.input_dtypes,
                        event.structured_input_strides,
                    )
                )
                assert (event.python_id, event.python_parent_id, event.python_module_id) == (
                    -1,
                    -1,
                    -1,
                )
            found.append(
                (event.device_index, event.device_resource_id)
                if not event.is_python_function
                else ()
            )
        rows.append([one for one in found if one])
    assert sorted(rows[1], key=repr) == sorted(rows[0], key=repr)
    assert ("T", [[]], [""], [[]]) in rows[1]
