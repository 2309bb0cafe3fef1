# SPDX-License-Identifier: Apache-2.0
"""Ranges timed by CUDA events: the exclusive profiler's CUDA state, and profiles without CUPTI."""

from __future__ import annotations

import importlib.util
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from compilers import LAUNCHER
from cuda_double import ROOT, build_torch_streams, genuine_headers, run
from needs import NEEDS_CUPTI_HEADERS

pytestmark = [pytest.mark.integrations, NEEDS_CUPTI_HEADERS]

_EVENTS = """
import warnings
warnings.simplefilter("ignore")
from fastprof import profiler_legacy
cuda = ctypes.CDLL(os.environ["FASTPROF_CUDART_LIBRARY"])
def work(ms, stream=0):
    cuda.fake_cudart_work(ctypes.c_void_p(stream), ctypes.c_int64(int(ms * 1e6)))
def occupy(stream=0):  # so that the program, however slow the machine is, is ahead of the device
    work(500, stream)
"""


Run = Callable[..., Any]


@pytest.fixture
def run_events(runtime_double: Path, double: Path, tmp_path: Path) -> Callable[..., Any]:
    """Run a program with events where CUPTI refuses us; environment variables are arguments."""
    settings = {
        "FAKE_CUPTI_FAIL": "cuptiSubscribe=39",
        "FASTPROF_CUDART_LIBRARY": str(runtime_double),
    }
    return lambda program, **more: run(double, _EVENTS + program, tmp_path, **settings, **more)


@pytest.mark.parametrize("headers", genuine_headers(), ids=lambda h: h.version)
def test_our_declarations_are_those_of_the_genuine_header(headers: Any) -> None:
    folders = [f"-I{folder}" for folder in headers.folders]
    subprocess.run(
        ["g++", "-std=c++17", "-fsyntax-only", "-Icsrc", "-Icsrc/include", *folders,
         "tests/abi/event_runtime.cpp"],
        cwd=ROOT, check=True, timeout=300,
    )  # fmt: skip


def test_torch_tells_its_stream_by_the_functions_that_we_call(tmp_path: Path) -> None:
    """PyTorch's genuine headers: the layout of a stream, and the names of both functions."""
    spec = importlib.util.find_spec("torch")
    if spec is None or not spec.submodule_search_locations:
        pytest.skip("needs torch")
    torch = Path(next(iter(spec.submodule_search_locations)), "include")
    made = tmp_path / "check.o"
    folders = [f"-I{folder}" for folder in (torch, *genuine_headers()[0].folders)]
    subprocess.run(
        [*LAUNCHER, "g++", "-std=c++20", "-c", "-DC10_CUDA_NO_CMAKE_CONFIGURE_FILE", *folders,
         "tests/doubles/cuda/torch_stream_check.cpp", "-o", str(made)],
        cwd=ROOT, check=True, timeout=300,
    )  # fmt: skip
    symbols = subprocess.run(["nm", "-u", str(made)], check=True, capture_output=True, text=True)
    ours = (ROOT / "csrc/backends/cuda/event_runtime.cpp").read_text()
    named = [word for word in symbols.stdout.split() if "c10" in word]
    assert len(named) == 2 and all(f'"{name}"' in ours for name in named)


def test_the_exclusive_profiler_times_ranges(run_events: Run) -> None:
    seen = run_events("""
with profiler_legacy.profile(use_cuda=True) as prof:
    occupy()
    with record_function("outer"):
        work(4)
        with record_function("inner"):
            work(8)
    with record_function("aten::view"):
        work(1)
averages = {a.key: a for a in prof.key_averages()}
marks = [r.name for rows in prof.records() for r in rows if r.kind == "mark" and r.device >= 0]
print(json.dumps({
    "ms": {k: a.device_time_total / 1000 for k, a in averages.items()},
    "kernels": sorted((e.name, k.name, k.device) for e in prof.function_events for k in e.kernels),
    "marks": sorted(set(marks)), "starts": marks.count("__cuda_start_event"),
    "made": cuda.fake_cudart_events_created(),
    "table": prof.table(),
}))
""", FAKE_CUDART_DEVICES="2")  # fmt: skip
    assert seen["ms"]["inner"] == pytest.approx(8, abs=0.01)
    assert seen["ms"]["outer"] == pytest.approx(12, abs=0.01)  # PyTorch's: inner ranges included
    assert seen["ms"]["aten::view"] == 0  # views are not timed
    assert seen["kernels"] == [["inner", "inner", 0], ["outer", "outer", 0]]
    assert seen["marks"] == ["__cuda_start_event", "__cuda_startup"] and seen["starts"] == 2
    assert "CUDA total" in seen["table"]
    # Two devices: 5 warm-ups and a start each; then four events of the ranges.
    assert seen["made"] <= 16


def test_events_are_used_again(run_events: Run) -> None:
    seen = run_events("""
def once():
    with profiler_legacy.profile(use_cuda=True) as prof:
        for _ in range(50):
            with record_function("range"):
                work(0.01)
    return cuda.fake_cudart_events_created()
import gc
counts = []
for _ in range(3):
    counts.append(once())
    gc.collect()
print(json.dumps(counts))
""")  # fmt: skip
    assert seen[0] == seen[1] == seen[2] > 100


def test_without_a_device_the_exclusive_profiler_says_so(run_events: Run) -> None:
    seen = run_events("""
with warnings.catch_warnings(record=True) as told:
    warnings.simplefilter("always")
    prof = profiler_legacy.profile(use_cuda=True)
with prof:
    with record_function("range"):
        pass
print(json.dumps([prof.use_cuda, str(told[0].message), [e.name for e in prof.function_events]]))
""", FAKE_CUDART_DEVICES="0")  # fmt: skip
    assert seen[0] is False and "CUDA is not available" in seen[1] and seen[2] == ["range"]


def test_a_profile_times_ranges_where_another_tool_has_cupti(run_events: Run) -> None:
    """Each range has the time of its own work: rows of a stream do not overlap."""
    seen = run_events("""
with profile(activities=both) as prof:
    occupy()
    with record_function("outer"):
        work(4)
        with record_function("first"):
            work(8)
        work(2)
        with record_function("second"):
            work(6)
            with record_function("empty"):
                pass
prof.export_chrome_trace("t.json")
table = prof.event_table
kernels = rows(table, "kernel")
spans = sorted((int(table.start_ns[r]), int(table.end_ns[r])) for r in kernels)
averages = {a.key: a for a in prof.key_averages() if str(a.device_type) == "DeviceType.CPU"}
print(json.dumps({
    "ms": {k: [a.self_device_time_total / 1000, a.device_time_total / 1000] for k, a in averages.items()},
    "parts": sorted(table.name(r) for r in kernels),
    "overlap": any(a[1] > b[0] for a, b in zip(spans, spans[1:])),
    "inside": spans[0][0] >= int(table.t0_ns) - 1_000_000,
    "missing": str(prof.missing),
    "supported": ProfilerActivity.CUDA in fastprof.supported_activities(),
    "parents": [table.name(table.column("parent")[r]) for r in rows(table, "cuda_runtime")],
}))
""")  # fmt: skip
    ms = seen["ms"]
    assert ms["outer"] == [pytest.approx(6, abs=0.01), pytest.approx(20, abs=0.01)]
    assert [ms[name][0] for name in ("first", "second")] == pytest.approx([8, 6], abs=0.01)
    assert ms.get("empty", [0, 0])[0] < 0.01
    assert not seen["overlap"] and seen["inside"] and seen["supported"]
    assert {"first", "outer", "second"} <= set(seen["parts"])
    assert "another tool" in seen["missing"] and "CUDA events instead" in seen["missing"]
    assert seen["parents"] == ["outer", "first", "second", "empty"]


def test_devices_streams_and_threads_each_have_their_own_time(
    run_events: Run, tmp_path: Path
) -> None:
    """PyTorch's current stream, which the double of its library tells, is where events are recorded."""
    streams = build_torch_streams(tmp_path)
    seen = run_events(f"""
torch_cuda = ctypes.CDLL({str(streams)!r})
def on(device, stream, name, ms):
    cuda.cudaSetDevice(device)
    torch_cuda.fake_set_current_stream(device, ctypes.c_int64(stream))
    occupy(stream)
    with record_function(name):
        work(ms, stream)
        work(50, 99)  # of a stream that is not the current one
with profile(activities=both) as prof:
    on(0, 0x10, "a", 5)
    thread = threading.Thread(target=on, args=(1, 0x20, "b", 7)); thread.start(); thread.join()
    on(0, 0x30, "c", 9)
table = prof.event_table
print(json.dumps(sorted((table.name(r), int(table.column("device_index")[r]),
                         int(table.column("device_resource_id")[r]), int(table.duration_ns[r]) / 1e6)
                        for r in rows(table, "kernel"))))
""", FAKE_CUDART_DEVICES="2")  # fmt: skip
    assert [row[:3] for row in seen] == [["a", 0, 1], ["b", 1, 1], ["c", 0, 2]]
    assert [row[3] for row in seen] == pytest.approx([5, 7, 9], abs=0.01)


def test_captured_streams_are_left_alone(run_events: Run) -> None:
    seen = run_events("""
with profile(activities=both) as prof:
    cuda.fake_cudart_capture(ctypes.c_void_p(0), 1)
    with record_function("captured"):
        pass
    cuda.fake_cudart_capture(ctypes.c_void_p(0), 0)
    with record_function("timed"):
        work(2)
with profiler_legacy.profile(use_cuda=True) as legacy:
    cuda.fake_cudart_capture(ctypes.c_void_p(0), 1)
    with record_function("captured"):
        pass
    cuda.fake_cudart_capture(ctypes.c_void_p(0), 0)
table = prof.event_table
print(json.dumps([[table.name(r) for r in rows(table, "kernel")], str(prof.missing),
                  [e.name for e in legacy.function_events]]))
""")  # fmt: skip
    assert (
        seen[0] == ["timed"] and "captured into a CUDA graph" in seen[1] and seen[2] == ["captured"]
    )


@pytest.mark.parametrize(
    "function",
    ["cudaGetDeviceCount", "cudaGetDevice", "cudaSetDevice", "cudaEventCreateWithFlags",
     "cudaEventRecord", "cudaEventSynchronize", "cudaEventElapsedTime", "cudaDeviceSynchronize",
     "cudaStreamIsCapturing"],
)  # fmt: skip
def test_any_function_may_fail(run_events: Run, function: str) -> None:
    """The CPU's part is whole; no failure of CUDA reaches the program."""
    seen = run_events("""
def once():
    with profile(activities=both) as prof:
        with record_function("range"):
            work(1)
    return ["range" in [e.name for e in prof.events()], len(rows(prof.event_table, "kernel")), str(prof.missing)]
print(json.dumps([once(), once()]))
""", FAKE_CUDART_FAIL=f"{function}=700")  # fmt: skip
    for has_range, kernels, missing in seen:
        assert has_range
        if function in ("cudaSetDevice", "cudaDeviceSynchronize"):
            assert kernels == 1  # only the alignment is lost
        else:
            assert kernels == 0 and "CUDA" in missing


def test_nothing_is_observed_after_the_last_profile(run_events: Run) -> None:
    """Nested profiles share the callback; pauses, forks and exits leave the program alone."""
    seen = run_events("""
outer = profile(activities=both); outer.start()
with profile(activities=both) as inner:
    with record_function("two"):
        work(1)
with record_function("three"):
    work(1)
outer.stop()
made = cuda.fake_cudart_events_created()
for _ in range(100):
    with record_function("after"):
        pass
names = lambda p: sorted(p.event_table.name(r) for r in rows(p.event_table, "kernel"))
left = profile(activities=both); left.start()
child = os.fork()
if child == 0:
    with record_function("in child"):
        pass
    os._exit(0)
status = os.waitpid(child, 0)[1]
print(json.dumps([names(outer), names(inner), cuda.fake_cudart_events_created() - made, status]))
""")  # fmt: skip
    assert seen == [["three", "two"], ["two"], 0, 0]
