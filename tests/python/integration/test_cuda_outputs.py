# SPDX-License-Identifier: Apache-2.0
"""Tables, traces and reports of profiles with rows of CUDA devices, through the double of libcupti."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from cuda_double import run
from needs import NEEDS_CUPTI_HEADERS

import fastprof

pytestmark = [pytest.mark.integrations, NEEDS_CUPTI_HEADERS]


def test_tables_have_device_columns(double: Path, tmp_path: Path) -> None:
    seen = run(double, """
with profile(activities=both) as prof:
    with record_function("range"):
        for _ in range(3):
            launch(time=30000)
averages = {a.key: a for a in prof.key_averages()
            if not (a.is_user_annotation and str(a.device_type) == "DeviceType.CUDA")}
kernel = averages["gemm(float*, float*, int)"]
print(json.dumps({
    "count": kernel.count, "cuda": str(kernel.device_type),
    "of_range": averages["range"].device_time_total, "own": kernel.self_device_time_total,
    "self_of_range": averages["range"].self_device_time_total,
    "text": prof.key_averages().table(sort_by="cuda_time_total"),
}))
""", tmp_path)  # fmt: skip
    assert seen["count"] == 3 and seen["cuda"] == "DeviceType.CUDA"
    assert seen["of_range"] == pytest.approx(seen["own"], rel=1e-6) and seen["own"] > 0
    assert "Self CUDA" in seen["text"] and "Self CUDA time total" in seen["text"]


def test_traces_have_what_kineto_writes(double: Path, tmp_path: Path) -> None:
    run(double, """
with profile(activities=both) as prof:
    with record_function("range"):
        launch(); copy()
prof.export_chrome_trace("t.json")
prof.export_perfetto_trace("t.pftrace")
print("0")
""", tmp_path)  # fmt: skip
    events = json.loads((tmp_path / "t.json").read_text())["traceEvents"]
    (of_range,) = [e for e in events if e.get("cat") == "user_annotation"]
    (kernel,) = [e for e in events if e.get("cat") == "kernel"]
    (copied,) = [e for e in events if e.get("cat") == "gpu_memcpy"]
    (call,) = [e for e in events if e.get("name") == "cudaLaunchKernel"]
    args = kernel["args"]
    assert (kernel["pid"], kernel["tid"], args["stream"], args["device"]) == (0, 7, 7, 0)
    assert args["External id"] == call["args"]["External id"] == of_range["args"]["External id"]
    assert args["correlation"] == call["args"]["correlation"]
    assert args["grid"] == [64, 1, 1] and args["block"] == [256, 1, 1]
    assert args["registers per thread"] == 32 and args["shared memory"] == 1536
    assert args["queued"] == 0
    assert copied["args"]["bytes"] == 4096 and copied["args"]["memory bandwidth (GB/s)"] > 0
    arrows = [e for e in events if e.get("cat") == "ac2g"]
    begins = {e["id"]: e for e in arrows if e["ph"] == "s"}
    ends = {e["id"]: e for e in arrows if e["ph"] == "f"}
    assert begins.keys() == ends.keys() and len(begins) == 2
    assert {(e["pid"], e["tid"]) for e in ends.values()} == {(0, 7)}
    assert any(b["ts"] == call["ts"] and ends[i]["ts"] == kernel["ts"] for i, b in begins.items())
    labels = {e["pid"]: e["args"]["labels"] for e in events if e.get("name") == "process_labels"}
    assert labels[0] == "GPU 0" and labels[of_range["pid"]] == "CPU"
    read = [fastprof.load(tmp_path / name) for name in ("t.json", "t.pftrace")]
    for table in read:
        categories = table.sites.field("category")
        assert [categories[site] for site in table.column("site")].count("kernel") == 1
        links = table.kernels
        assert links is not None
        assert {table.name(row) for row in links.row.tolist()} == {"range"}
        assert sorted(links.names[name] for name in links.name) == sorted(
            [kernel["name"], copied["name"]]
        )
    first, second = ({each.key: each.device_time_total for each in t.key_averages()} for t in read)
    assert first["range"] > 0 and first == second
