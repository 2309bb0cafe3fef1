# SPDX-License-Identifier: Apache-2.0
"""What CUPTI tells beside work: memory, waits for events; annotations of streams, and full buffers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from cuda_double import build_double, genuine_headers, run
from needs import NEEDS_CUPTI_HEADERS

pytestmark = [pytest.mark.integrations, NEEDS_CUPTI_HEADERS]


@pytest.mark.parametrize("headers", genuine_headers(), ids=lambda h: h.version)
def test_memory_and_waits_in_the_records_of_each_version(headers: Any, tmp_path: Path) -> None:
    run(build_double(headers, tmp_path), """
config = fastprof._ExperimentalConfig(enable_cuda_sync_events=True)
with profile(activities=both, profile_memory=True, experimental_config=config) as prof:
    with record_function("range"):
        gpu.fake_memory(1, 3, ctypes.c_uint64(0x1000), ctypes.c_uint64(256), 1, 7, 1)
        gpu.fake_memory(2, 3, ctypes.c_uint64(0x2000), ctypes.c_uint64(512), 0, 7, 0)
        gpu.fake_memory_pool(3, ctypes.c_uint64(1024), 0)
        gpu.fake_unified_memory(1, ctypes.c_uint64(4096), 1)
        gpu.fake_unified_memory(2, ctypes.c_uint64(8192), 0)
        gpu.fake_record_event(5, 0, 7)
        recorded = gpu.fake_record_event(5, 0, 8)
        gpu.fake_wait_event(5, 0, 9)
        gpu.fake_record_event(5, 0, 10)  # after the wait
        gpu.fake_wait_event(6, 0, 9)     # never recorded
prof.export_chrome_trace("t.json")
kernels = [k.name for e in prof.events() for k in e.kernels]
print(json.dumps([recorded, kernels]))
""", tmp_path)  # fmt: skip
    events = json.loads((tmp_path / "t.json").read_text())["traceEvents"]
    (of_range,) = [e for e in events if e.get("name") == "range"]

    def of(category: str, *members: str) -> list[list[Any]]:
        found = [e for e in events if e.get("cat") == category]
        return [
            [e["name"], e["pid"], e["tid"], *(e["args"].get(m) for m in members)] for e in found
        ]

    assert sorted(of("gpu_memory", "address", "bytes", "pool")) == [
        ["Memory Allocation (Device)", 1, 7, "0x1000", 256, "0x9000"],
        ["Memory Pool Trim", 0, 0, "0x9000", 1024, "0x9000"],
        ["Memory Release (Device)", 0, 0, "0x2000", 512, "0x0"],
    ]
    assert sorted(of("unified_memory", "address", "value")) == [
        ["Unified Memory DtoH", 0, 0, "0x700000", 8192],
        ["Unified Memory HtoD", 1, 0, "0x700000", 4096],
    ]
    waits = of("cuda_sync", "wait_on_cuda_event_id", "wait_on_stream", "cuda_sync_kind")
    assert waits == [
        ["Stream Wait Event", 0, 9, 5, 8, "Stream Wait Event"],
        ["Stream Wait Event", 0, 9, 6, -1, "Stream Wait Event"],
    ]
    calls = {e["name"]: e["args"]["correlation"] for e in events if e.get("cat") == "cuda_runtime"}
    wait = next(e["args"] for e in events if e.get("cat") == "cuda_sync")
    assert wait["wait_on_cuda_event_record_corr_id"] < wait["correlation"]
    assert "cudaMalloc" in calls and "cudaStreamWaitEvent" in calls
    allocation = next(e for e in events if e.get("name") == "Memory Allocation (Device)")
    assert allocation["args"]["External id"] == of_range["args"]["External id"]


def test_a_rank_knows_what_its_streams_waited_for(double: Path, tmp_path: Path) -> None:
    pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    seen = run(double, """
import pyarrow.parquet
config = fastprof._ExperimentalConfig(enable_cuda_sync_events=True)
with profile(activities=both, experimental_config=config) as prof:
    with record_function("range"):
        launch(b"first", stream=8)
        gpu.fake_record_event(5, 0, 8)
        launch(b"second", stream=8)
        gpu.fake_wait_event(5, 0, 9)
        launch(b"third", stream=9)
        gpu.fake_record_event(6, 0, 9)
        gpu.fake_wait_event(6, 0, 8)
        gpu.fake_wait_event(7, 0, 8)  # never recorded
        gpu.fake_synchronize(8)
fastprof.ranks.write(prof.event_table, "r", rank=0, world_size=1)
rows = pyarrow.parquet.read_table("r/rank-00000.parquet").to_pylist()
calls = {row["correlation"]: row["name"] for row in rows if row["category"] == "cuda_runtime"}
waits = [row for row in rows if row["waits_for"] is not None]
print(json.dumps([
    sorted((row["name"], rows[row["waits_for"]]["name"] if row["waits_for"] >= 0 else "") for row in waits),
    sorted((row["name"], calls[row["correlation"]]) for row in rows if row["category"] == "kernel"),
]))
""", tmp_path)  # fmt: skip
    waits = [["Stream Wait Event", name] for name in ("", "first", "third")]
    assert seen[0] == [["Stream Sync", "Stream Wait Event"], *waits]
    assert seen[1] == [[name, "cudaLaunchKernel"] for name in ("first", "second", "third")]


def test_memory_is_listed_on_request_only(double: Path, tmp_path: Path) -> None:
    seen = run(double, """
def categories(**options):
    with profile(**options) as p:
        gpu.fake_memory(1, 3, ctypes.c_uint64(0x1000), ctypes.c_uint64(256), 0, 7, 0)
        gpu.fake_unified_memory(1, ctypes.c_uint64(64), 0)
    names = p.event_table.sites.field("category")
    return sorted({names[s] for s in p.event_table.column("site")} - {"cuda_runtime"})
print(json.dumps([
    categories(activities=both),
    categories(activities=both, profile_memory=True),
    categories(activities=[ProfilerActivity.CPU, {ProfilerActivity.CUDA: ["gpu_memory"]}]),
]))
""", tmp_path)  # fmt: skip
    assert seen == [[], ["gpu_memory", "unified_memory"], ["gpu_memory"]]


def test_refused_counters_of_managed_memory_are_told(double: Path, tmp_path: Path) -> None:
    seen = run(double, """
import warnings
warnings.simplefilter("ignore")
with profile(activities=both, profile_memory=True) as prof:
    launch()
print(json.dumps([len(rows(prof.event_table, "kernel")), str(prof.missing)]))
""", tmp_path, FAKE_CUPTI_FAIL="cuptiActivityConfigureUnifiedMemoryCounter=22")  # fmt: skip
    assert seen[0] == 1 and "managed memory is not observed" in seen[1]


def test_user_ranges_are_projected_onto_streams(double: Path, tmp_path: Path) -> None:
    """From the first begin to the last end of what was launched in a range, for each stream."""
    seen = run(double, """
def other():
    with record_function("thread"):
        launch(b"t", stream=9)
with profile(activities=both) as prof:
    launch(b"before")
    with record_function("outer"):
        with record_function("inner"):
            launch(b"a"); launch(b"b", stream=9)
        launch(b"c")
        with record_function("nothing"):
            pass
    thread = threading.Thread(target=other); thread.start(); thread.join()
table = prof.event_table
prof.export_chrome_trace("t.json")
spans = {}
for row in rows(table, "gpu_user_annotation"):
    stream = int(table.column("device_resource_id")[row])
    spans[f"{table.name(row)} {stream}"] = [int(table.start_ns[row]), int(table.end_ns[row])]
kernel = {table.name(r): [int(table.start_ns[r]), int(table.end_ns[r])] for r in rows(table, "kernel")}
expected = {"inner 7": kernel["a"], "inner 9": kernel["b"], "outer 9": kernel["b"],
            "outer 7": [kernel["a"][0], kernel["c"][1]], "thread 9": kernel["t"]}
averages = prof.key_averages()
total = sum(a.self_device_time_total for a in averages if not a.is_user_annotation
            and str(a.device_type) == "DeviceType.CUDA")
loaded = fastprof.load("t.json")
reread = sorted((loaded.name(r), int(loaded.column("device_resource_id")[r]))
                for r in rows(loaded, "gpu_user_annotation"))
print(json.dumps({
    "same": spans == expected, "spans": spans, "reread": reread,
    "footer": averages.table().splitlines()[-1], "total": total,
    "kernels": sorted((e.name, k.name) for e in prof.events() for k in e.kernels),
    "order": all(table.column("parent")[r] < r for r in range(len(table))),
}))
""", tmp_path)  # fmt: skip
    assert seen["same"], seen["spans"]
    assert seen["reread"] == [
        ["inner", 7], ["inner", 9], ["outer", 7], ["outer", 9], ["thread", 9]
    ]  # fmt: skip
    # Annotations span work: they are not added to it.
    assert float(seen["footer"].split()[-1].rstrip("us")) == pytest.approx(seen["total"], abs=0.01)
    assert seen["kernels"] == [["inner", "a"], ["inner", "b"], ["outer", "c"], ["thread", "t"]]
    events = json.loads((tmp_path / "t.json").read_text())["traceEvents"]
    ids = {e["name"]: e["args"]["External id"] for e in events if e.get("cat") == "user_annotation"}
    projected = [e for e in events if e.get("cat") == "gpu_user_annotation"]
    assert all(e["args"]["External id"] == ids[e["name"]] for e in projected)
    first = [e["name"] for e in events if e.get("ph") == "X" and e.get("tid") == 7]
    assert first == ["before", "outer", "inner", "a", "c"]  # what is around comes first


def test_full_buffers_end_a_cycle_of_the_schedule(double: Path, tmp_path: Path) -> None:
    """The recording is handed over, the rest of the cycle skipped, and the next cycle records again."""
    seen = run(double, """
import warnings
warnings.simplefilter("ignore")
found, actions = [], []
def ready(p):
    table = p.event_table
    found.append([table.dropped.get("device", 0) > 0, len(rows(table, "kernel")) > 0])
with profile(activities=both, schedule=fastprof.schedule(wait=1, warmup=1, active=4, repeat=2),
             on_trace_ready=ready) as prof:
    for step in range(12):
        actions.append(prof.current_action.name)
        for _ in range(400 if step == 3 else 1):
            launch()
        gpu.fake_await_delivery()  # buffers come back on another thread
        prof.step()
print(json.dumps([found, actions, str(prof.missing)]))
""", tmp_path, FASTPROF_CUPTI_MAX_BYTES="60000", FAKE_CUPTI_BUFFER_BYTES="4096")  # fmt: skip
    full, actions, missing = seen
    assert full[0] == [True, True] and full[1] == [False, True]
    once = ["NONE", "WARMUP", "RECORD", "RECORD", "RECORD", "RECORD_AND_SAVE"]
    stopped = ["NONE", "WARMUP", "RECORD", "RECORD", "DEVICE_STOPPED", "DEVICE_STOPPED"]
    assert actions == stopped + once
    assert "more records were waiting" in missing
