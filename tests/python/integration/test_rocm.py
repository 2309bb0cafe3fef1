# SPDX-License-Identifier: Apache-2.0
"""Work on AMD's GPUs, collected through the double of librocprofiler-sdk that tests/doubles/rocm builds."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
from cuda_double import ROOT
from rocm_double import amd_headers, build_register, build_rocprofiler, run

pytestmark = pytest.mark.integrations


@pytest.fixture(scope="module")
def rocprofiler(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_rocprofiler(tmp_path_factory.mktemp("rocprofiler"))


def recorded(rocprofiler: Path, program: str, tmp_path: Path, **environment: str) -> Any:
    settings = {"FASTPROF_ROCPROFILER_LIBRARY": str(rocprofiler), "FASTPROF_HIP_LIBRARY": ""}
    return run(program, tmp_path, **{**settings, **environment})


@pytest.mark.skipif(not amd_headers(), reason="AMD's headers of rocprofiler-sdk are not here")
def test_our_declarations_are_those_of_the_genuine_headers() -> None:
    folders = [f"-I{folder}" for folder in amd_headers()]
    for check in ("rocprofiler.cpp", "event_runtime.cpp"):
        subprocess.run(
            ["g++", "-std=c++17", "-fsyntax-only", "-D__HIP_PLATFORM_AMD__", "-DFASTPROF_CHECK_HIP",
             "-Icsrc", "-Icsrc/include", *folders, f"tests/abi/{check}"],
            cwd=ROOT, check=True, timeout=300,
        )  # fmt: skip


def test_kernels_are_linked_to_the_range_that_launched_them(
    rocprofiler: Path, tmp_path: Path
) -> None:
    """By the calls' correlations; names and categories are Kineto's for ROCm."""
    seen = recorded(rocprofiler, """
assert ProfilerActivity.CUDA in fastprof.supported_activities()
gpu.fake_load_kernel(b"_Z4gemmPfS_i.kd"); gpu.fake_load_kernel(b"_Z4reluPf.kd")
with profile(activities=both) as prof:
    with record_function("outer"):
        with record_function("first"):
            launch()
        with record_function("second"):
            launch(b"_Z4reluPf.kd", 1, 5); copy(2); copy(3)
        with record_function("graph"):
            gpu.fake_graph_launch(b"_Z4reluPf.kd", 3, ctypes.c_uint64(5000))
    gpu.fake_quiet_call()
table = prof.event_table
linked, external = table.column("linked_correlation_id"), table.column("external_id")
launcher = {int(external[r]): table.name(r) for r in range(len(table)) if external[r]}
prof.export_chrome_trace("t.json")
print(json.dumps({
    "work": [[table.name(r), launcher.get(int(linked[r])), int(table.column("device_type")[r]),
              int(table.column("device_index")[r]), int(table.column("device_resource_id")[r])]
             for c in ("kernel", "gpu_memcpy") for r in rows(table, c)],
    "calls": [[table.name(r), table.name(table.column("parent")[r])] for r in rows(table, "cuda_runtime")],
    "annotations": sorted({table.name(r) for r in rows(table, "gpu_user_annotation")}),
    "dropped": sum(table.dropped.values()), "missing": str(prof.missing),
    "inside": all(table.start_ns[r] >= table.t0_ns and table.end_ns[r] <= table.t1_ns for r in range(len(table))),
    "ms": [int(table.duration_ns[r]) for r in rows(table, "kernel")][:1],
    "table": prof.key_averages().table(), "active": gpu.fake_active_contexts(),
}))
""", tmp_path)  # fmt: skip
    gemm, relu = "gemm(float*, float*, int)", "relu(float*)"
    assert sorted(seen["work"]) == sorted(
        [
            [gemm, "first", 1, 0, 3],
            [relu, "second", 1, 1, 5],
            ["Memcpy HtoD (Host -> Device)", "second", 1, 1, 0],
            ["Memcpy DtoH (Device -> Host)", "second", 1, 0, 0],
            *[[relu, "graph", 1, 0, 3]] * 3,
        ]
    )
    assert seen["calls"] == [
        ["hipLaunchKernel", "first"],
        ["hipLaunchKernel", "second"],
        ["hipMemcpyAsync", "second"],
        ["hipMemcpyAsync", "second"],
        ["hipGraphLaunch", "graph"],
    ]
    assert seen["annotations"] == ["first", "graph", "outer", "second"]
    assert seen["dropped"] == 0 and seen["missing"] == "{}" and seen["inside"]
    assert seen["ms"][0] == pytest.approx(200_000, rel=0.05)
    assert "Self CUDA" in seen["table"] and gemm in seen["table"]
    assert seen["active"] == 1  # what names kernels stays, and costs a launch nothing

    trace = json.loads((tmp_path / "t.json").read_text())
    (kernel,) = (e for e in trace["traceEvents"] if e.get("name") == gemm and e.get("ph") == "X")
    assert kernel["cat"] == "kernel"
    assert kernel["args"] | {
        "device": 0, "stream": 3, "hsa_queue": 3, "kind": "Dispatch Kernel",
        "grid": [64, 2, 1], "block": [256, 1, 1], "shared memory": 512,
    } == kernel["args"]  # fmt: skip
    copied = next(e for e in trace["traceEvents"] if e.get("name", "").startswith("Memcpy HtoD"))
    assert copied["args"]["bytes"] == 4096 and copied["args"]["memory bandwidth (GB/s)"] > 0
    assert trace["rocprofiler-sdk_version"] == 1.0
    assert [gpu["name"] for gpu in trace["deviceProperties"]] == ["AMD Fake MI300"] * 2
    assert trace["deviceProperties"][0]["warpSize"] == 64


def test_nested_profiles_and_threads_each_have_their_work(
    rocprofiler: Path, tmp_path: Path
) -> None:
    seen = recorded(rocprofiler, """
fastprof.supported_activities(); gpu.fake_load_kernel(b"_Z4gemmPfS_i.kd")
outer = profile(activities=both); outer.start()
launch()
with profile(activities=both) as inner:
    def on_thread():
        with record_function("thread"):
            for _ in range(200):
                launch(ns=1000)
    threads = [threading.Thread(target=on_thread) for _ in range(3)]
    for thread in threads: thread.start()
    for thread in threads: thread.join()
launch()
outer.stop()
launch()
with profile(activities=both) as after:
    launch()
kernels = [len(rows(each.event_table, "kernel")) for each in (outer, inner, after)]
averages = {a.key: a.device_time_total for a in inner.key_averages() if str(a.device_type) == "DeviceType.CPU"}
print(json.dumps([kernels, averages["thread"], str(inner.missing)]))
""", tmp_path, FAKE_ROCPROFILER_WATERMARK="1")  # fmt: skip
    assert seen[0] == [602, 600, 1] and seen[2] == "{}"
    assert seen[1] == pytest.approx(600, rel=0.05)


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        ({"FAKE_ROCPROFILER_INITIALIZED": "1"}, "another tool registered itself"),
        ({"FAKE_ROCPROFILER_VERSION": "0.6"}, "has version 0.6"),
        ({"FAKE_ROCPROFILER_FAIL": "rocprofiler_force_configure=1"}, "refuses fastprof: a failure"),
        ({"FAKE_ROCPROFILER_FAIL": "rocprofiler_create_buffer=2"}, "refuses a buffer"),
        ({"FASTPROF_ROCPROFILER_LIBRARY": "/none.so"}, "names a file that cannot be used"),
        ({"LD_PRELOAD": "register"}, "HIP has started before fastprof"),
    ],
)
def test_where_it_cannot_be_used_the_reason_is_said(
    rocprofiler: Path, tmp_path: Path, fault: dict[str, str], said: str
) -> None:
    """And what to do: without events, CUDA cannot be recorded at all."""
    if "LD_PRELOAD" in fault:
        fault = {"LD_PRELOAD": str(build_register(tmp_path))}
    program = """
try:
    profile(activities=[ProfilerActivity.CUDA])
    said = "nothing"
except fastprof.errors.UnavailableError as error:
    said = str(error)
print(json.dumps(said))
"""
    if "rocprofiler_double" not in fault.get("FASTPROF_ROCPROFILER_LIBRARY", "rocprofiler_double"):
        program = "import os; os.environ['FASTPROF_ROCPROFILER_LIBRARY'] = '/none.so'" + program
        fault = {}
    assert said in recorded(rocprofiler, program, tmp_path, **fault)


def test_work_that_is_not_delivered_is_reported(rocprofiler: Path, tmp_path: Path) -> None:
    seen = recorded(rocprofiler, """
with profile(activities=both) as prof:
    launch()
os.environ["FAKE_ROCPROFILER_FAIL"] = "rocprofiler_start_context=9"
with profile(activities=both) as refused:
    with record_function("range"):
        pass
print(json.dumps([str(prof.missing), str(refused.missing), [e.name for e in refused.events()]]))
""", tmp_path, FAKE_ROCPROFILER_LOSE="1")  # fmt: skip
    assert "the end of the work of 1 calls" in seen[0]
    assert "does not begin: a failure of the double (9)" in seen[1] and seen[2] == ["range"]


def test_fastprof_run_registers_before_the_program_starts_hip(
    rocprofiler: Path, tmp_path: Path
) -> None:
    register = build_register(tmp_path)
    (tmp_path / "train.py").write_text(f"""
import ctypes
ctypes.CDLL({str(register)!r})  # HIP starts
gpu = ctypes.CDLL({str(rocprofiler)!r})
gpu.fake_load_kernel(b"_Z4gemmPfS_i.kd")
gpu.fake_launch(b"_Z4gemmPfS_i.kd", 0, ctypes.c_uint64(3), ctypes.c_uint64(200000))
""")
    seen = recorded(rocprofiler, """
import subprocess
done = subprocess.run([sys.executable, "-m", "fastprof", "run", "train.py"], capture_output=True, text=True)
print(json.dumps(done.stdout + done.stderr))
""", tmp_path)  # fmt: skip
    assert "gemm(float*, float*, int)" in seen and "Self CUDA time total" in seen


def test_torch_profilers_tool_is_registered_together_with_ours(
    rocprofiler: Path, tmp_path: Path
) -> None:
    """Later ones are refused, so that torch.profiler would record no kernels after fastprof."""
    source = tmp_path / "torch.cpp"
    source.write_text("""
static int asked = 0;
extern "C" void* rocprofiler_configure(unsigned, const char*, unsigned, void*) { ++asked; return nullptr; }
extern "C" int times_asked() { return asked; }
""")
    library = tmp_path / "libtorch_cpu.so"
    subprocess.run(
        ["g++", "-shared", "-fPIC", "-Wl,-soname,libtorch_cpu.so", str(source), "-o", str(library)],
        check=True, timeout=300,
    )  # fmt: skip
    seen = recorded(rocprofiler, f"""
torch = ctypes.CDLL({str(library)!r})
supported = ProfilerActivity.CUDA in fastprof.supported_activities()
print(json.dumps([supported, torch.times_asked(), os.popen("echo $ROCP_TOOL_LIBRARIES").read().strip()]))
""", tmp_path)  # fmt: skip
    assert seen == [True, 1, ""]
