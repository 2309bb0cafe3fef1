# SPDX-License-Identifier: Apache-2.0
"""What rows of the GPU say beside their times: occupancy, channels, graphs, peers, events, collectives."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
from compilers import compile_and_link
from cuda_double import ROOT, build_double, build_driver_double, genuine_headers, run
from needs import NEEDS_CUPTI_HEADERS

pytestmark = [pytest.mark.integrations, NEEDS_CUPTI_HEADERS]


def rows_of(trace: Path, category: str) -> list[dict[str, Any]]:
    events = json.loads(trace.read_text())["traceEvents"]
    return [event for event in events if event.get("cat") == category]


@pytest.mark.parametrize("headers", genuine_headers(), ids=lambda h: h.version)
def test_arguments_of_each_version(headers: Any, tmp_path: Path) -> None:
    run(build_double(headers, tmp_path), """
driver = ctypes.CDLL(os.environ["DRIVER"])
config = fastprof._ExperimentalConfig(enable_cuda_sync_events=True)
with profile(activities=both, experimental_config=config) as prof:
    launch(); copy()
    gpu.fake_graph_memset(ctypes.c_uint64(64), 0, 7, ctypes.c_uint64(9000))
    copy(kind=10, source=3, to=3, device=1, stream=9)
    gpu.fake_record_event(5, 1, 8)
    gpu.fake_map_memory()
prof.export_chrome_trace("t.json")
print(0)
""", tmp_path, DRIVER=str(build_driver_double(tmp_path)))  # fmt: skip
    trace = tmp_path / "t.json"
    (kernel,) = [event["args"] for event in rows_of(trace, "kernel")]
    # 256 threads are 8 of 64 warps; 8 warps of 32 * 32 registers; 1536 bytes and 1 KB of the driver.
    assert kernel["occupancy"] == {
        "activeBlocksPerMultiprocessor": 8, "limitingFactors": "WARPS|REGS", "blockLimitRegs": 8,
        "blockLimitSharedMem": 91, "blockLimitWarps": 8, "blockLimitBlocks": 32,
        "allocatedRegistersPerBlock": 8192, "allocatedSharedMemPerBlock": 2560,
    }  # fmt: skip
    assert (kernel["channel"], kernel["channel_type"]) == (4, 1)
    newer = tuple(map(int, headers.version.split("."))) > (13, 0)
    assert kernel.get("priority") == (-1 if newer else None)
    copy, peer = sorted((e["args"] for e in rows_of(trace, "gpu_memcpy")), key=len)
    (fill,) = [e["args"] for e in rows_of(trace, "gpu_memset")]
    assert (fill["graph id"], fill["graph node id"]) == (6, 200) and "graph id" not in copy
    assert {a["channel"] for a in (copy, peer, fill)} == {5}
    assert {a["channel_type"] for a in (copy, peer, fill)} == {2}
    peers = {"fromDevice": 1, "inDevice": 1, "toDevice": 2}
    contexts = {"fromContext": 2, "inContext": 2, "toContext": 3}
    assert {**peers, **contexts}.items() <= peer.items()
    assert [e["name"] for e in rows_of(trace, "cuda_driver")] == ["cuMemCreate", "cuMemMap"]
    events = [(e["name"], e["pid"], e["tid"], e["args"]["event_id"], e["args"]["context"], e["dur"] > 0)
              for e in rows_of(trace, "cuda_event")]  # fmt: skip
    stamped = headers.version == "12.9" or headers.major >= 13
    assert events == ([("cudaEvent", 1, 8, 5, 2, True)] if stamped else [])


OCCUPANCY = r"""
#include <cstdio>
#include <random>
#include "backends/cuda/occupancy.cpp"
#include "cuda_occupancy.h"
using namespace fastprof::cupti;
int main() {
  std::mt19937 random(7);
  const auto below = [&](int end) { return static_cast<int>(random() % end); };
  struct Device { int major, minor, threads, blocks, shared_kb, optin_kb; };
  long wrong = 0;
  for (const Device& d : {Device{6, 0, 2048, 32, 64, 48}, {7, 0, 2048, 32, 96, 96}, {7, 5, 1024, 16, 64, 64},
                          {8, 0, 2048, 32, 164, 163}, {8, 6, 1536, 16, 100, 99}, {8, 9, 1536, 24, 100, 99},
                          {9, 0, 2048, 32, 228, 227}, {10, 0, 2048, 32, 228, 227}, {12, 0, 1536, 24, 100, 99}}) {
    cudaOccDeviceProp p{};
    p.computeMajor = d.major, p.computeMinor = d.minor;
    p.maxThreadsPerBlock = 1024, p.maxThreadsPerMultiprocessor = d.threads;
    p.regsPerBlock = p.regsPerMultiprocessor = 65536, p.warpSize = 32, p.numSms = 100;
    p.sharedMemPerBlock = 48 << 10, p.sharedMemPerMultiprocessor = d.shared_kb << 10;
    p.sharedMemPerBlockOptin = d.optin_kb << 10, p.reservedSharedMemPerBlock = d.major >= 8 ? 1024 : 0;
    const DeviceLimits limits{100, d.threads, d.blocks, 65536, d.shared_kb << 10, 1024, 65536, 48 << 10,
                              d.optin_kb << 10, d.major >= 8 ? 1024 : 0, d.major, d.minor};
    for (int i = 0; i < 20000; ++i) {
      KernelRecord kernel{};
      kernel.block_x = 1 + below(1024), kernel.block_y = kernel.block_z = 1;
      kernel.registers_per_thread = static_cast<uint16_t>(below(256));
      const int shared = below(2) ? below((d.optin_kb << 10) + 1) : below(3) * 1000;
      kernel.static_shared_memory = std::min(shared, below(48 << 10));
      kernel.dynamic_shared_memory = shared - kernel.static_shared_memory;
      cudaOccFuncAttributes a;
      a.maxThreadsPerBlock = 1024, a.numRegs = kernel.registers_per_thread;
      a.sharedSizeBytes = static_cast<size_t>(kernel.static_shared_memory);
      a.shmemLimitConfig = FUNC_SHMEM_LIMIT_OPTIN;
      a.maxDynamicSharedSizeBytes = static_cast<size_t>(kernel.dynamic_shared_memory);
      const cudaOccDeviceState state;
      cudaOccResult r{};
      if (cudaOccMaxActiveBlocksPerMultiprocessor(&r, &p, &a, &state, kernel.block_x, a.maxDynamicSharedSizeBytes)
          != CUDA_OCC_SUCCESS) continue;
      const Occupancy ours = occupancy_of(kernel, limits);
      unsigned factors = 0;
      const std::string names = ours.limiting_factors();
      if (names.find("WARPS") != std::string::npos) factors |= OCC_LIMIT_WARPS;
      if (names.find("REGS") != std::string::npos) factors |= OCC_LIMIT_REGISTERS;
      if (names.find("SMEM") != std::string::npos) factors |= OCC_LIMIT_SHARED_MEMORY;
      if (names.find("BLOCKS") != std::string::npos) factors |= OCC_LIMIT_BLOCKS;
      const bool same = ours.blocks == r.activeBlocksPerMultiprocessor && factors == r.limitingFactors &&
          ours.by_warps == r.blockLimitWarps && ours.by_registers == r.blockLimitRegs &&
          ours.by_shared == r.blockLimitSharedMem && ours.by_blocks == r.blockLimitBlocks &&
          ours.registers_per_block == r.allocatedRegistersPerBlock &&
          ours.shared_bytes_per_block == static_cast<int>(r.allocatedSharedMemPerBlock);
      if (!same && wrong++ < 5)
        std::printf("%d.%d: %d threads, %d registers, %d bytes: %d blocks, not %d\n", d.major, d.minor,
                    kernel.block_x, kernel.registers_per_thread, shared, ours.blocks, r.activeBlocksPerMultiprocessor);
    }
  }
  return wrong != 0;
}
"""


def test_occupancies_are_those_of_nvidias_calculator(tmp_path: Path) -> None:
    """On devices of eight generations, with the genuine cuda_occupancy.h."""
    folders = [
        f for h in genuine_headers() for f in h.folders if Path(f, "cuda_occupancy.h").exists()
    ]
    if not folders:
        pytest.skip("NVIDIA's cuda_occupancy.h is not here")
    (tmp_path / "main.cpp").write_text(OCCUPANCY)
    includes = [f"-I{ROOT / 'csrc'}", f"-I{ROOT / 'csrc' / 'include'}", f"-I{folders[-1]}"]
    compile_and_link(
        "g++", tmp_path / "main", [tmp_path / "main.cpp"], "-std=c++17", "-O1", *includes
    )
    done = subprocess.run([tmp_path / "main"], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout


def test_graphs_as_a_whole(double: Path, tmp_path: Path) -> None:
    """One row a launch, which counts as device time; refused where it would crash; nodes come back."""
    seen = run(double, """
def graphs(n):
    with record_function("graph"):
        launch(b"alone")
        if len(found) == 2:
            gpu.fake_graph_capture()
        for _ in range(n):
            gpu.fake_graph_launch(ctypes.c_char_p(b"node"), 0, 7, ctypes.c_uint64(1000), 5)
whole = {ProfilerActivity.CUDA: ["kernel", "gpu_memcpy", "cuda_runtime", "cuda_graph"]}
import warnings
warnings.simplefilter("ignore")
found = []
import os
for activities in (both, [ProfilerActivity.CPU, whole], [ProfilerActivity.CPU, whole], both):
    if len(found) == 2:
        os.environ["FASTPROF_CUDA_GRAPH_TRACE"] = "1"
    with profile(activities=activities) as prof:
        graphs(3)
    names = sorted(k.name for e in prof.events() for k in e.kernels if e.name == "graph")
    found.append([names, prof.missing])
    if len(found) == 3:
        prof.export_chrome_trace("t.json")
print(json.dumps(found))
""", tmp_path)  # fmt: skip
    (before, _), (refused, why), (whole, missing), (after, _) = seen
    assert before == refused == after == ["alone", *["node"] * 15]
    assert whole == [*["CUDA graph 5"] * 3, "alone"] and missing == {}
    assert "FASTPROF_CUDA_GRAPH_TRACE=1" in str(why) and "its nodes are recorded" in str(why)
    graph = [e for e in rows_of(tmp_path / "t.json", "kernel") if e["name"] == "CUDA graph 5"]
    assert len(graph) == 3 and {e["args"]["graph id"] for e in graph} == {5}


COLLECTIVE = r"""
#include <torch/csrc/distributed/c10d/ParamCommsUtils.hpp>
// What torch's process groups for devices do around each collective.
extern "C" void collective(void (*launch)()) {
  RECORD_PARAM_COMMS(static_cast<int64_t>(7), std::make_tuple(std::string("0"), std::string("default_pg")),
                     1, "allreduce", 16, 32, at::kFloat, std::vector<int64_t>({1, 2}),
                     std::vector<int64_t>({3}), 0, 1, 4);
  launch();
}
"""


def test_kernels_of_collectives_have_the_ops_metadata(double: Path, tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    home = Path(torch.__file__).parent
    if not (home / "include" / "torch").is_dir():
        pytest.skip("needs torch's headers, to make a collective without a device")
    (tmp_path / "collective.cpp").write_text(COLLECTIVE)
    compile_and_link(
        "g++", tmp_path / "collective.so", [tmp_path / "collective.cpp"],
        "-std=c++20", "-O0", "-w", "-DNDEBUG", "-DUSE_DISTRIBUTED", "-DUSE_C10D", "-shared", "-fPIC",
        f"-I{home}/include", f"-I{home}/include/torch/csrc/api/include",
        "-Wl,--no-as-needed", f"-L{home}/lib", "-ltorch_cpu", "-lc10",
    )  # fmt: skip
    run(double, """
import torch
library = ctypes.CDLL("./collective.so")
def work():
    launch(b"ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevComm*)"); copy()
call = ctypes.CFUNCTYPE(None)(work)
with profile(activities=both) as prof:
    launch(b"ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevComm*)")  # of no op
    library.collective(call)
    library.collective(call)
prof.export_chrome_trace("t.json")
prof.export_perfetto_trace("t.pftrace")
print(json.dumps(prof.missing))
""", tmp_path)  # fmt: skip
    trace = tmp_path / "t.json"
    wanted = {
        "Collective name": "allreduce", "In msg nelems": 16, "Out msg nelems": 32, "Group size": 4,
        "dtype": "Float", "In split size": "[1, 2]", "Out split size": "[3]", "Process Group Name": "0",
        "Process Group Description": "default_pg", "Process Group Ranks": "[0, 1, 2, 3]",
    }  # fmt: skip
    ops = [e["args"] for e in rows_of(trace, "cpu_op") if e["name"] == "record_param_comms"]
    assert len(ops) == 2 and all(wanted.items() <= op.items() for op in ops)
    first, *kernels = [e["args"] for e in rows_of(trace, "kernel")]
    assert len(kernels) == 2 and "Collective name" not in first
    for kernel in kernels:
        assert wanted.items() <= kernel.items() and kernel["grid"] == [64, 1, 1]
        assert "Rank" not in kernel and "Is asynchronized op" not in kernel
    assert all("Collective name" not in e["args"] for e in rows_of(trace, "gpu_memcpy"))
    assert b"Collective name" in (tmp_path / "t.pftrace").read_bytes()
