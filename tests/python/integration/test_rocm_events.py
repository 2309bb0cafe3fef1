# SPDX-License-Identifier: Apache-2.0
"""Ranges timed by HIP events, where rocprofiler-sdk cannot be used: the double is that of CUDA's runtime, renamed."""

from __future__ import annotations

from pathlib import Path

import pytest
from needs import NEEDS_CUPTI_HEADERS
from rocm_double import build_hip, build_streams, run

pytestmark = [pytest.mark.integrations, NEEDS_CUPTI_HEADERS]


@pytest.fixture(scope="module")
def hip(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_hip(tmp_path_factory.mktemp("hip"))


@pytest.mark.parametrize("renamed", [True, False])
def test_ranges_have_the_time_of_torchs_current_stream(
    hip: Path, tmp_path: Path, renamed: bool
) -> None:
    """The functions have other names up to PyTorch 2.10."""
    streams = build_streams(tmp_path, renamed=renamed)
    seen = run(f"""
torch_hip = ctypes.CDLL({str(streams)!r})
torch_hip.fake_set_current_stream(0, ctypes.c_int64(0x10))
with profile(activities=both) as prof:
    work(500, 0x10)  # the program, however slow the machine is, is ahead of the device
    with record_function("outer"):
        work(4, 0x10)
        with record_function("inner"):
            work(8, 0x10); work(50, 99)
table = prof.event_table
averages = {{a.key: a for a in prof.key_averages() if str(a.device_type) == "DeviceType.CPU"}}
print(json.dumps([
    averages["outer"].self_device_time_total / 1000, averages["inner"].self_device_time_total / 1000,
    [[table.name(r), table.name(table.column("parent")[r])] for r in rows(table, "cuda_runtime")],
    str(prof.missing), ProfilerActivity.CUDA in fastprof.supported_activities(),
]))
""", tmp_path, FASTPROF_HIP_LIBRARY=hip, FASTPROF_ROCPROFILER_LIBRARY="")  # fmt: skip
    assert seen[:2] == pytest.approx([4, 8], abs=0.01)
    assert seen[2] == [["hipEventRecord", "outer"], ["hipEventRecord", "inner"]]
    assert "Ranges are timed by HIP events instead" in seen[3] and seen[4]


def test_failures_name_hips_functions(hip: Path, tmp_path: Path) -> None:
    seen = run("""
from fastprof import profiler_legacy
with profiler_legacy.profile(use_cuda=True) as legacy:
    work(500)
    with record_function("range"):
        work(6)
def failing(fault):
    os.environ["FAKE_CUDART_FAIL"] = fault
    with profile(activities=both) as prof:
        with record_function("range"):
            work(1)
    return str(prof.missing)
print(json.dumps([
    [a.device_time_total / 1000 for a in legacy.key_averages() if a.key == "range"],
    failing("hipEventElapsedTime=700"), failing("hipGetDeviceCount=100"),
]))
""", tmp_path, FASTPROF_HIP_LIBRARY=hip, FASTPROF_ROCPROFILER_LIBRARY="")  # fmt: skip
    assert seen[0] == pytest.approx([6], abs=0.01)
    assert "hipEventElapsedTime failed" in seen[1]
    assert "HIP's runtime finds no device: hipGetDeviceCount failed" in seen[2]
