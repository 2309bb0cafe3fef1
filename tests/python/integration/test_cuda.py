# SPDX-License-Identifier: Apache-2.0
"""Work on CUDA devices, collected through the double of libcupti that tests/doubles/cuda builds."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import abi_tables
import pytest
from cuda_double import build_double, genuine_headers, run
from needs import NEEDS_CUPTI_HEADERS

pytestmark = [pytest.mark.integrations, NEEDS_CUPTI_HEADERS]


@pytest.mark.parametrize("version", ["11.8", "12.9", "13.0", "a newer 13.x"])
def test_the_headers_of_each_version_are_here(version: str) -> None:
    """The tests below run for the versions that are; continuous integration may skip none."""
    found = [headers.version for headers in genuine_headers()]
    newest = [v for v in found if v.startswith("13.") and v != "13.0"]
    if version not in found and not (version == "a newer 13.x" and newest):
        pytest.skip(f"the headers of CUDA {version} are not here, of {found} only")


@pytest.mark.parametrize("headers", genuine_headers(), ids=lambda h: h.version)
def test_our_declarations_are_those_of_the_genuine_headers(headers: Any) -> None:
    abi_tables.compare("cupti.txt", headers.flags)


@pytest.mark.parametrize("headers", genuine_headers(), ids=lambda h: h.version)
def test_kernels_are_linked_to_the_range_that_launched_them(headers: Any, tmp_path: Path) -> None:
    seen = run(build_double(headers, tmp_path), """
with profile(activities=both) as prof:
    with record_function("outer"):
        with record_function("first"):
            launch(b"_Z4gemmPfS_i")
        with record_function("second"):
            launch(b"_Z4reluPf"); copy(); gpu.fake_memset(ctypes.c_uint64(64), 0, 7, ctypes.c_uint64(9000))
    gpu.fake_quiet_call()
table = prof.event_table
linked, external = table.column("linked_correlation_id"), table.column("external_id")
launcher = {int(external[r]): table.name(r) for r in range(len(table)) if external[r]}
print(json.dumps({
    "work": [[table.name(r), launcher.get(int(linked[r])), int(table.column("device_type")[r]),
              int(table.column("device_resource_id")[r])]
             for c in ("kernel", "gpu_memcpy", "gpu_memset") for r in rows(table, c)],
    "calls": [[table.name(r), table.name(table.column("parent")[r])]
              for r in rows(table, "cuda_runtime")],
    "kernels": sorted((e.name, k.name) for e in prof.events() for k in e.kernels),
    "dropped": sum(table.dropped.values()),
    "inside": all(table.start_ns[r] >= table.t0_ns and table.end_ns[r] <= table.t1_ns
                  for r in range(len(table))),
}))
""", tmp_path)  # fmt: skip
    assert sorted(seen["work"]) == sorted(
        [
            ["gemm(float*, float*, int)", "first", 1, 7],
            ["relu(float*)", "second", 1, 7],
            ["Memcpy HtoD (Pageable -> Device)", "second", 1, 7],
            ["Memset (Device)", "second", 1, 7],
        ]
    )
    assert seen["calls"] == [
        ["cudaLaunchKernel", "first"],
        ["cudaLaunchKernel", "second"],
        ["cudaMemcpyAsync", "second"],
        ["cudaMemsetAsync", "second"],
    ]
    assert seen["kernels"] == [
        ["first", "gemm(float*, float*, int)"],
        ["second", "Memcpy HtoD (Pageable -> Device)"],
        ["second", "Memset (Device)"],
        ["second", "relu(float*)"],
    ]
    assert seen["dropped"] == 0


def test_threads_tasks_and_correlations_of_a_million_events(double: Path, tmp_path: Path) -> None:
    """Many threads, small buffers in any order: each kernel has the range of its own launch."""
    seen = run(double, """
import numpy as np
THREADS, EACH = 4, 2500
def work(number):
    for i in range(EACH):
        with record_function(f"t{number}"):
            launch(stream=number + 10, time=100)
with profile(activities=both) as prof:
    threads = [threading.Thread(target=work, args=(n,)) for n in range(THREADS)]
    [t.start() for t in threads]; [t.join() for t in threads]
table = prof.event_table
linked, external = table.column("linked_correlation_id"), table.column("external_id")
row_of = {int(e): r for r, e in enumerate(external) if e}
kernels = rows(table, "kernel")
wrong = sum(1 for r in kernels
            if int(table.column("device_resource_id")[r])
               != 10 + int(table.name(row_of[int(linked[r])])[1:]))
distinct = len({int(linked[r]) for r in kernels})
print(json.dumps([len(kernels), wrong, distinct, sum(table.dropped.values())]))
""", tmp_path, FAKE_CUPTI_BUFFER_BYTES="4096")  # fmt: skip
    assert seen == [10000, 0, 10000, 0]


def test_graphs_peers_devices_and_the_driver(double: Path, tmp_path: Path) -> None:
    seen = run(double, """
with profile(activities=both) as prof:
    with record_function("graph"):
        gpu.fake_graph_launch(ctypes.c_char_p(b"node"), 0, 7, ctypes.c_uint64(1000), 5)
    with record_function("peer"):
        copy(kind=10, source=3, to=3, device=1, stream=9)
    with record_function("driver"):
        gpu.fake_driver_launch(ctypes.c_char_p(b"by_driver"), 1, 9, ctypes.c_uint64(1000))
    for kind in (1, 4, 6):
        gpu.fake_overhead(kind << 16)
table = prof.event_table
prof.export_chrome_trace("t.json")
print(json.dumps({
    "kernels": sorted((e.name, k.name, k.device) for e in prof.events() for k in e.kernels),
    "devices": sorted({int(table.column("device_index")[r]) for r in rows(table, "kernel")}),
    "overhead": [table.name(r) for r in rows(table, "overhead")],
    "driver": [table.name(r) for r in rows(table, "cuda_driver")],
}))
""", tmp_path)  # fmt: skip
    assert seen["kernels"] == [
        ["driver", "by_driver", 1],
        *[["graph", "node", 0]] * 5,
        ["peer", "Memcpy PtoP (Device -> Device)", 1],
    ]
    assert seen["devices"] == [0, 1] and seen["driver"] == ["cuLaunchKernel"]
    assert seen["overhead"] == [
        "Activity Buffer Flush", "Runtime Triggered Module Loading", "Command Buffer Full",
    ]  # fmt: skip
    events = json.loads((tmp_path / "t.json").read_text())["traceEvents"]
    nodes = [e for e in events if e.get("name") == "node"]
    assert [e["args"]["graph node id"] for e in nodes] == [100, 101, 102, 103, 104]


@pytest.mark.parametrize("code", [39, 35, 15, 999])
def test_a_client_that_is_refused_is_told_why(double: Path, tmp_path: Path, code: int) -> None:
    seen = run(double, """
import warnings
warnings.simplefilter("ignore")
with profile(activities=both) as prof:
    with record_function("range"):
        launch()
reason = str(prof.missing)
print(json.dumps([[e.name for e in prof.events()], reason,
                  ProfilerActivity.CUDA in fastprof.supported_activities()]))
""", tmp_path, FAKE_CUPTI_FAIL=f"cuptiSubscribe={code},cuptiActivitySetAttribute={code}")  # fmt: skip
    words = {39: "another tool", 35: "may not profile", 15: "no CUDA driver", 999: "no CUDA driver"}
    assert seen[0] == ["range"] and words[code] in seen[1]
    # Whether a client would be accepted is not tried before a profile begins.
    assert seen[2] == (code in (39, 35))


@pytest.mark.parametrize(
    "function",
    ["cuptiActivityRegisterCallbacks", "cuptiActivityEnable", "cuptiActivityFlushAll",
     "cuptiActivityGetNextRecord", "cuptiActivityGetNumDroppedRecords", "cuptiGetCallbackName",
     "cuptiActivityRegisterTimestampCallback", "cuptiSetThreadIdType", "cuptiActivityDisable",
     "cuptiUnsubscribe", "cuptiGetVersion"],
)  # fmt: skip
def test_any_function_may_fail(double: Path, tmp_path: Path, function: str) -> None:
    """The profile of the CPU is whole, and what is missing is said or the device's rows are there."""
    seen = run(double, """
import warnings
warnings.simplefilter("ignore")
for _ in range(2):
    with profile(activities=both) as prof:
        with record_function("range"):
            launch()
print(json.dumps(["range" in [e.name for e in prof.events()]]))
""", tmp_path, FAKE_CUPTI_FAIL=f"{function}=999")  # fmt: skip
    assert seen == [True]


def test_failures_are_told_and_the_clock_is_converted_where_ours_is_refused(
    double: Path, tmp_path: Path
) -> None:
    program = """
import time, warnings
warnings.simplefilter("ignore")
with profile(activities=both) as prof:
    for _ in range(5):
        with record_function("range"):
            time.sleep(0.002); launch(); time.sleep(0.002)
print(json.dumps([len(rows(prof.event_table, "kernel")), str(prof.missing)]))
"""
    refused = "cuptiActivityRegisterTimestampCallback=1"
    assert run(double, program, tmp_path, FAKE_CUPTI_FAIL=refused) == [5, "{}"]
    for failing, words in (
        ("cuptiSetThreadIdType=1", "not linked to ranges"),
        ("cuptiActivityEnable=1", "kernels are not recorded"),
    ):
        assert words in run(double, program, tmp_path, FAKE_CUPTI_FAIL=failing)[1]


def test_dropped_and_untimed_records_are_counted(double: Path, tmp_path: Path) -> None:
    seen = run(double, """
with profile(activities=both) as prof:
    gpu.fake_drop(3)
    gpu.fake_untimed(ctypes.c_char_p(b"untimed"))
first = prof.event_table.dropped.get("device", 0)
with profile(activities=both) as again:
    launch()
print(json.dumps([first, again.event_table.dropped.get("device", 0)]))
""", tmp_path)  # fmt: skip
    assert seen == [4, 0]


def test_without_timestamps_of_ours_times_are_converted(tmp_path: Path) -> None:
    """CUDA before 11.6: CUPTI stamps with its own clock."""
    double = build_double(genuine_headers()[0], tmp_path, defines=("FAKE_WITHOUT_TIMESTAMPS",))
    seen = run(double, """
import time
with profile(activities=both) as prof:
    for _ in range(20):
        with record_function("range"):
            time.sleep(0.002); launch(); time.sleep(0.002)
table = prof.event_table
call = rows(table, "cuda_runtime")
parents = {table.name(table.column("parent")[r]) if table.column("parent")[r] >= 0 else "" for r in call}
print(json.dumps([len(call), sorted(parents), len(rows(table, "kernel"))]))
""", tmp_path)  # fmt: skip
    assert seen == [20, ["range"], 20]


def test_a_forked_child_and_an_exit_while_recording(double: Path, tmp_path: Path) -> None:
    seen = run(double, """
prof = profile(activities=both); prof.start()
launch()
child = os.fork()
if child == 0:
    import warnings
    warnings.simplefilter("ignore")
    with profile(activities=both) as own:
        with record_function("in child"):
            pass
    os._exit(0 if [e.name for e in own.events()] == ["in child"] else 1)
status = os.waitpid(child, 0)[1]
launch()
print(json.dumps(status))
sys.stdout.flush()
# The interpreter exits while the profile records.
""", tmp_path)  # fmt: skip
    assert seen == 0


def test_filters_and_sync_events(double: Path, tmp_path: Path) -> None:
    seen = run(double, """
def categories(**options):
    with profile(**options) as p:
        with record_function("range"):
            launch(); copy(); gpu.fake_synchronize(7)
    names = p.event_table.sites.field("category")
    return sorted({names[s] for s in p.event_table.column("site")})
config = fastprof._ExperimentalConfig(enable_cuda_sync_events=True)
print(json.dumps([
    categories(activities=[ProfilerActivity.CPU, {ProfilerActivity.CUDA: ["kernel"]}]),
    categories(activities=both, experimental_config=config),
    categories(activities=[ProfilerActivity.CUDA]),
    categories(),
    categories(activities=[ProfilerActivity.CPU]),
]))
""", tmp_path)  # fmt: skip
    calls = ["cuda_runtime"]
    assert seen[0] == [*calls, "kernel", "user_annotation"]
    on_device = ["gpu_memcpy", "gpu_user_annotation", "kernel"]
    assert seen[1] == ["cuda_runtime", "cuda_sync", *on_device, "user_annotation"]
    assert seen[2] == ["cuda_runtime", "gpu_memcpy", "kernel"]
    assert seen[3] == ["cuda_runtime", *on_device, "user_annotation"]
    assert seen[4] == ["user_annotation"]


def test_the_real_library_without_a_driver(tmp_path: Path) -> None:
    """NVIDIA's own libcupti, where there is one and no GPU: the profile goes on without it."""
    library = Path("/usr/local/cuda/lib64/libcupti.so.13")
    if not library.exists():
        library = Path("/usr/local/cuda/lib/libcupti.so.13")
    if not library.exists() or Path("/dev/nvidiactl").exists():
        pytest.skip("needs NVIDIA's libcupti and no driver")
    seen = run(library, """
import warnings
warnings.simplefilter("ignore")
with profile(activities=both) as prof:
    with record_function("range"):
        pass
print(json.dumps([[e.name for e in prof.events()], prof.missing]))
""", tmp_path)  # fmt: skip
    assert seen[0] == ["range"] and "no CUDA driver" in str(seen[1])


def test_a_thread_local_profile_has_its_own_launches(double: Path, tmp_path: Path) -> None:
    seen = run(double, """
before, done = threading.Event(), threading.Event()
def other():  # began before the profile: not followed
    before.wait(); launch(b"theirs"); done.set()
thread = threading.Thread(target=other); thread.start()
with profile(activities=both, all_threads=False) as prof:
    before.set(); done.wait()
    with record_function("mine"):
        launch(b"mine")
print(json.dumps(sorted(prof.event_table.name(r) for r in rows(prof.event_table, "kernel"))))
""", tmp_path)  # fmt: skip
    assert seen == ["mine"]
