# SPDX-License-Identifier: Apache-2.0
"""`fastprof ranks` of real GPU jobs: HolisticTraceAnalysis's sample traces, by its figures and by sums of our own.

The traces are not in this tree: they are fetched when there is a network. FASTPROF_HTA_TRACES names a folder that has
them instead: tests/data of the repository.
"""

from __future__ import annotations

import gzip
import json
import logging
import os
import urllib.error
import urllib.request
import warnings
from pathlib import Path
from typing import Any

import pytest

import fastprof
from fastprof.ranks.text import job_values

pytestmark = pytest.mark.integrations
pytest.importorskip("pyarrow", reason="pyarrow is not installed")
pytest.importorskip("hta", reason="hta is not installed")

COMMIT = "f4d0062c382f42bd8a74838bcdad1916c7d5d2da"
URL = (
    f"https://raw.githubusercontent.com/facebookresearch/HolisticTraceAnalysis/{COMMIT}/tests/data/"
)
# Jobs whose kernels HTA counts whole, and others, where it leaves out kernels without a launch.
EQUAL = (
    ("trace_filter/sampled_rank-0.json.gz", "trace_filter/sampled_rank-1.json.gz"),
    ("df_index_resolver/df_index_resolver.json.gz",),
    ("critical_path/alexnet/benchmark_result_2869224_1695835535_trace.json.gz",),
)
OTHERS = (
    ("nccl_parser_config/nccl_data.json.gz",),
    ("trace_diff/test/test.json.gz",),
    ("ns_resolution_trace/rank-0.Apr_03_18_51_38.1102.pt.trace.json.gz",),
)
GPU = ("kernel", "gpu_memcpy", "gpu_memset", "Kernel", "Memcpy", "Memset")
_unreachable: list[str] = []


def trace(name: str) -> Any:
    local = os.environ.get("FASTPROF_HTA_TRACES")
    if local:
        packed = (Path(local) / name).read_bytes()
    else:
        try:
            if _unreachable:
                raise OSError(_unreachable[0])
            with urllib.request.urlopen(URL + name, timeout=10) as answer:
                packed = answer.read()
        except (OSError, urllib.error.URLError) as error:
            _unreachable.append(str(error))
            pytest.skip("HTA's traces cannot be fetched")
    return json.loads(gzip.decompress(packed))


def job_folder(tmp_path: Path, names: tuple[str, ...]) -> list[Any]:
    traces = [trace(name) for name in names]
    for rank, each in enumerate(traces):
        each.setdefault("distributedInfo", {"rank": rank, "world_size": len(names)})
        packed = gzip.compress(json.dumps(each).encode(), 1)
        (tmp_path / f"rank-{rank}.json.gz").write_bytes(packed)
    return traces


def ms_of_ranks(folder: Path) -> list[dict[str, float]]:
    """Of each rank: computation and the rest of the GPU's work beside it, in all steps."""
    job = fastprof.ranks.open(folder)
    found = []
    for row in job_values(job)["ranks"]:
        rest = row["exposed_ns"] + row["exposed_copies_ns"]
        hidden = row["communication_ns"] - row["exposed_ns"]
        found.append({
            "compute": row["compute_ns"] * row["steps"] / 1e6, "rest": rest * row["steps"] / 1e6,
            "overlap": 100 * hidden / max(row["communication_ns"], 1),
        })  # fmt: skip
    return found


@pytest.mark.parametrize("names", EQUAL, ids=lambda names: names[0].split("/")[0])
def test_figures_are_those_of_hta(tmp_path: Path, names: tuple[str, ...]) -> None:
    """Within 0.1 % of the time between the first and the last kernel: HTA rounds to microseconds."""
    job_folder(tmp_path, names)
    ours = ms_of_ranks(tmp_path)
    from hta.trace_analysis import TraceAnalysis

    logging.disable(logging.CRITICAL)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            hta = TraceAnalysis(trace_dir=str(tmp_path), include_last_profiler_step=True)
            times = hta.get_temporal_breakdown(visualize=False).to_dict("records")
            overlap = hta.get_comm_comp_overlap(visualize=False).to_dict("records")
    finally:
        logging.disable(logging.NOTSET)
    assert len(ours) == len(times) == len(names)
    for mine, their, comm in zip(ours, times, overlap, strict=True):
        total = their["kernel_time(us)"] / 1e3
        assert abs(mine["compute"] - their["compute_time(us)"] / 1e3) <= total / 1000
        assert abs(mine["rest"] - their["non_compute_time(us)"] / 1e3) <= total / 1000
        if (
            comm["comp_comm_overlap_pctg"] == comm["comp_comm_overlap_pctg"]
        ):  # else no communication
            assert abs(mine["overlap"] - comm["comp_comm_overlap_pctg"]) <= 0.1


@pytest.mark.parametrize("names", OTHERS, ids=lambda names: names[0].split("/")[0])
def test_figures_are_those_of_sums_by_hand(tmp_path: Path, names: tuple[str, ...]) -> None:
    (described,) = job_folder(tmp_path, names)
    (ours,) = ms_of_ranks(tmp_path)
    complete = [event for event in described["traceEvents"] if event.get("ph") == "X"]
    steps = [
        (event["ts"], event["ts"] + event["dur"])
        for event in complete
        if str(event["name"]).startswith("ProfilerStep#") and event["cat"] != "gpu_user_annotation"
    ]
    compute, everything = 0.0, 0.0
    for begin, end in steps:
        inside = [
            (max(e["ts"], begin), min(e["ts"] + e["dur"], end), e)
            for e in complete
            if e.get("cat") in GPU and e["ts"] < end and e["ts"] + e["dur"] > begin
        ]
        everything += union(inside)
        compute += union(
            [
                e
                for e in inside
                if e[2]["cat"] in ("kernel", "Kernel") and "nccl" not in e[2]["name"].lower()
            ]
        )
    assert abs(ours["compute"] - compute / 1e3) <= compute / 1e6
    assert abs(ours["rest"] - (everything - compute) / 1e3) <= everything / 1e6


def union(intervals: list[Any]) -> float:
    total, until = 0.0, -1e30
    for begin, end, _ in sorted(intervals, key=lambda each: each[0]):
        total += max(end - max(begin, until), 0.0)
        until = max(until, end)
    return total
