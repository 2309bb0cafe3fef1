# SPDX-License-Identifier: Apache-2.0
"""Tools of others on traces with GPU work: HolisticTraceAnalysis, TensorBoard's GPU views, Perfetto's flows.

The work is what the double of libcupti was told to do, so the answers are known.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from cuda_double import build_driver_double, run
from needs import NEEDS_CUPTI_HEADERS
from processes import python
from trace_readers import PerfettoProcessor, perfetto_distribution

import fastprof
from fastprof.analysis.communication import communication
from fastprof.analysis.named_rows import NamedRows
from fastprof.analysis.steps import StepTimes

pytestmark = [pytest.mark.integrations, NEEDS_CUPTI_HEADERS]

# Three steps: computation on stream 7, communication beside it on 20, copies on 7; pauses between.
_PROGRAM = """
import time
driver = ctypes.CDLL(os.environ["DRIVER"])  # as a program that uses CUDA has loaded it
with profile(activities=both, schedule=fastprof.schedule(wait=0, warmup=0, active=3, repeat=1)) as prof:
    for step in range(3):
        with record_function("aten::mm"):
            for _ in range(20):
                launch(time=400000)
            launch(b"ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevComm*)", stream=20, time=12000000)
        with record_function("aten::copy_"):
            copy(kind=1, source=2, to=3, size=1 << 20, time=300000)
            copy(kind=2, source=3, to=1, size=1 << 19, time=300000)
            gpu.fake_memset(ctypes.c_uint64(1 << 18), 0, 7, ctypes.c_uint64(100000))
        time.sleep(0.02)
        prof.step()
prof.export_chrome_trace("traces/rank.json"); prof.export_perfetto_trace("trace.pftrace")
table = prof.event_table
def spans(test):
    return sorted((int(table.start_ns[r]), int(table.end_ns[r])) for c in ("kernel", "gpu_memcpy", "gpu_memset")
                  for r in rows(table, c) if test(table.name(r)))
print(json.dumps({"compute": spans(lambda n: n.startswith("gemm")), "comm": spans(lambda n: n.startswith("nccl")),
                  "memory": spans(lambda n: n.startswith("Mem")), "all": spans(lambda n: True)}))
"""

Span = tuple[int, int]


@pytest.fixture(scope="module")
def traced(
    double: Path, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Path, dict[str, list[Span]]]:
    """The folder of the traces, and the times of work by kind, in ns."""
    folder = tmp_path_factory.mktemp("gpu_readers")
    (folder / "traces").mkdir()
    spans = run(double, _PROGRAM, folder, DRIVER=str(build_driver_double(folder)))
    trace = folder / "traces" / "rank.json"
    text = json.loads(trace.read_text())
    text["distributedInfo"] = {"backend": "nccl", "rank": 0, "world_size": 1}
    trace.write_text(json.dumps(text))
    return folder, spans


def union_ns(spans: list[Span]) -> int:
    """Return the time that intervals cover."""
    total = end = 0
    for begin, until in sorted(spans):
        total += max(0, until - max(begin, end))
        end = max(end, until)
    return total


def overlap_percent(trace: Path) -> float:
    """Return the share of communication beside computation, by explain()'s analysis of the trace."""
    table = fastprof.load(trace)
    times = StepTimes(NamedRows(table))
    found = communication(table, times.start, times.end)
    return 100 * sum(c.comm_ns - c.exposed_ns for c in found) / sum(c.comm_ns for c in found)


def analyse(folder: Path, program: str) -> Any:
    head = """
import json, warnings
warnings.simplefilter("ignore")
from hta.trace_analysis import TraceAnalysis
analysis = TraceAnalysis(trace_dir="traces", include_last_profiler_step=True)
"""
    done = python("-c", head + program, cwd=folder, check=True)
    return json.loads(done.stdout.splitlines()[-1])


def test_breakdowns_of_holistic_trace_analysis(traced: tuple[Path, dict[str, list[Span]]]) -> None:
    pytest.importorskip("hta.trace_analysis")
    folder, spans = traced
    seen = analyse(folder, """
idle = analysis.get_temporal_breakdown(visualize=False).iloc[0]
waits = analysis.get_idle_time_breakdown(visualize=False)[0]
overlap = analysis.get_comm_comp_overlap(visualize=False)
bandwidth = analysis.get_memory_bw_summary().reset_index()
bandwidth.columns = ["/".join(map(str, c)) if isinstance(c, tuple) else str(c) for c in bandwidth.columns]
name, mean = (next(c for c in bandwidth.columns if part in c) for part in ("name", "mean"))
series = analysis.get_memory_bw_time_series()[0]
depth = analysis.get_queue_length_summary().reset_index()
ops = analysis.get_aten_op_kernels_and_delay()[0]
print(json.dumps({
    "busy": {k: float(idle[k]) for k in ("idle_time(us)", "compute_time(us)", "kernel_time(us)")},
    "streams": sorted({int(s) for s in waits.stream}), "categories": sorted(set(waits.idle_category)),
    "overlap": float(overlap.comp_comm_overlap_pctg.iloc[0]),
    "bandwidth": dict(zip(bandwidth[name], map(float, bandwidth[mean]))),
    "series": sorted(set(series.name)), "queues": sorted(int(s) for s in depth.stream),
    "ops": sorted(set(ops.op_name)) if "op_name" in ops else sorted(map(str, ops.columns)),
}))
""")  # fmt: skip
    rounding = len(spans["all"]) + 1  # HTA rounds each time down to whole us
    busy_us = union_ns(spans["all"]) / 1000
    window_us = (max(e for _, e in spans["all"]) - min(b for b, _ in spans["all"])) / 1000
    assert seen["busy"]["kernel_time(us)"] == pytest.approx(window_us, abs=2)
    assert seen["busy"]["idle_time(us)"] == pytest.approx(window_us - busy_us, abs=rounding)
    assert seen["busy"]["compute_time(us)"] == pytest.approx(
        union_ns(spans["compute"]) / 1000, abs=rounding
    )
    assert seen["streams"] == [7, 20] and seen["queues"] == [7, 20]
    assert seen["categories"]  # "host_wait" and others
    both = (
        union_ns(spans["comm"])
        + union_ns(spans["compute"])
        - union_ns(spans["comm"] + spans["compute"])
    )
    assert seen["overlap"] == pytest.approx(100 * both / union_ns(spans["comm"]), abs=2)
    exact = pytest.approx(100 * both / union_ns(spans["comm"]), abs=0.01)
    assert overlap_percent(folder / "traces" / "rank.json") == exact
    assert set(seen["bandwidth"]) == {"Memcpy HtoD", "Memcpy DtoH", "Memset"} == set(seen["series"])
    assert all(mean > 0 for mean in seen["bandwidth"].values())


@pytest.mark.filterwarnings(
    "ignore:Downcasting object dtype:FutureWarning"
)  # of pandas, by the plug-in
def test_gpu_views_of_tensorboard(traced: tuple[Path, dict[str, list[Span]]]) -> None:
    data = pytest.importorskip(
        "torch_tb_profiler.profiler.data", reason="torch-tb-profiler is not installed"
    )
    folder, spans = traced
    run_data = data.RunProfileData.parse(
        "worker", "1", str(folder / "traces" / "rank.json"), str(folder / "cache")
    )
    assert run_data.has_kernel and run_data.has_memcpy_or_memset
    kernels = run_data.kernel_stat
    counts = {name: int(row["count"]) for name, row in kernels.iterrows()}
    assert counts["gemm(float*, float*, int)"] == 60
    total_us = float(kernels.loc["gemm(float*, float*, int)"]["sum"])
    assert total_us == pytest.approx(sum(e - b for b, e in spans["compute"]) / 1000, rel=0.01)
    metrics = run_data.gpu_metrics_parser
    assert [int(gpu) for gpu in metrics.gpu_ids] == [0]
    assert 0 < metrics.gpu_utilization[0] <= 1
    # The GPU summary. Kernels have 64 blocks of 256 threads on 128 multiprocessors of 2048 threads: half a
    # block and 4 warps each, 256 / 2 of 2048 threads.
    (kernel, *_) = (
        event["args"]
        for event in json.loads((folder / "traces" / "rank.json").read_text())["traceEvents"]
        if event.get("cat") == "kernel"
    )
    assert (kernel["blocks per SM"], kernel["warps per SM"]) == (0.5, 4)
    assert kernel["est. achieved occupancy %"] == 6
    assert metrics.avg_occupancy_per_device[0] == pytest.approx(6)
    busy = metrics.gpu_utilization[0]
    # Computation and communication share the device for a part of the time: 0.5 to 1 of a busy device.
    assert 0.5 * busy <= metrics.avg_approximated_sm_efficiency_per_device[0] <= busy


def test_flows_of_perfetto(traced: tuple[Path, dict[str, list[Span]]]) -> None:
    """Arrows lead from each call to the work that it started, in both formats."""
    distribution = perfetto_distribution()
    if distribution is None:
        pytest.skip("Perfetto's trace processor is not installed")
    folder, spans = traced
    processor = PerfettoProcessor(distribution)
    for name in ("traces/rank.json", "trace.pftrace"):
        flows, tracks = processor(
            folder / name,
            "select out.name, inside.name, inside.ts >= out.ts from flow "
            "join slice out on flow.slice_out = out.id join slice inside on flow.slice_in = inside.id",
            "select distinct name from thread_track union select distinct name from track",
        )
        assert len(flows) == len(spans["all"]), name
        kinds = {(str(begin), str(end).split(" ")[0].split("(")[0]) for begin, end, _ in flows}
        assert ("cudaLaunchKernel", "gemm") in kinds and ("cudaMemcpyAsync", "Memcpy") in kinds
        assert all(int(after) == 1 for _, _, after in flows)
        assert tracks
