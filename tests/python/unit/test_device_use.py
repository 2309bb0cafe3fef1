# SPDX-License-Identifier: Apache-2.0
"""Why a device was idle, on hand-written tables: late launches, waits, a loader, other work on the device."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

from trace_tables import table_of_rows

import fastprof
from fastprof.analysis import explain

US = 1000
# name, category, start, end in us, number of the op that launched it; device work has the op's number as its link
Row = tuple[str, str, int, int, int]


def table_of(rows: list[Row]) -> fastprof.EventTable:
    on_device = [row[1] == "kernel" for row in rows]
    return table_of_rows(
        [row[:4] for row in rows],
        unit_ns=US,
        track=[int(device) for device in on_device],
        linked_correlation_id=[row[4] for row in rows],
        device_index=[0 if device else -1 for device in on_device],
        device_type=[int(device) for device in on_device],
        tracks=[fastprof.Track(1, name="main"), fastprof.Track(2, name="stream 7")],
    )


def idle_of(rows: list[Row]) -> tuple[str, list[str]]:
    found = explain(table_of(rows))
    return found.devices[0].text, [claim.text for claim in found.idle_devices]


def launched(count: int, period: int, length: int, lead: int = 10) -> list[Row]:
    """Kernels of `length` us every `period` us, each launched `lead` us before it starts."""
    rows: list[Row] = [("main", "user_annotation", 0, count * period + 100, 0)]
    for n in range(count):
        at = 50 + n * period
        rows.append(("cudaLaunchKernel", "cuda_runtime", at - lead, at - lead + 5, n + 1))
        rows.append(("gemm", "kernel", at, at + length, n + 1))
    return rows


def test_launching_slower_than_the_device_works() -> None:
    text, idle = idle_of(launched(10, 100, 40))  # 9 gaps of 60 us in 940 us
    assert text == "device 0 was idle 57.4 % of 940.000us: 57.4 % the host launched too late"
    assert idle == ["device 0 was idle 540.000us (57.4 %) because the host launched too late"]


def test_a_device_that_is_kept_busy_is_no_finding() -> None:
    text, idle = idle_of(launched(10, 100, 99, lead=60))
    assert text.startswith("device 0 was idle 0.9 % of 999.000us") and idle == []


def test_the_host_had_waited_for_the_device() -> None:
    rows = launched(10, 100, 40)
    rows += [
        ("cudaStreamSynchronize", "cuda_runtime", 60 + n * 100, 95 + n * 100, 0) for n in range(10)
    ]
    # Without the waits of 35 us, each of the nine launches would have come so much earlier.
    text, idle = idle_of(rows)
    assert idle == [
        "device 0 was idle 315.000us (33.5 %) because the host had waited for the device"
    ]
    assert text.endswith("had waited for the device, 23.9 % the host launched too late")


def test_a_short_wait_before_long_work_of_the_host_is_not_the_reason() -> None:
    rows = launched(2, 5000, 40)
    rows.append(("cudaDeviceSynchronize", "cuda_runtime", 80, 95, 0))
    text, _ = idle_of(rows)
    assert text.endswith(": 98.1 % the host launched too late")


def test_a_wait_explains_the_gap_after_it_only() -> None:
    """A wait for one kernel delays the next launch: the one gap is due to it, and not longer than the gap."""
    rows = launched(4, 100, 90, lead=5)
    rows.append(("cudaStreamSynchronize", "cuda_runtime", 50, 141, 0))
    text, _ = idle_of(rows)
    assert text.endswith(
        ": 5.1 % the host launched too late, 2.6 % the host had waited for the device"
    )


def test_the_host_waited_for_the_loader() -> None:
    rows = launched(10, 100, 40)
    name = "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__"
    rows += [(name, "user_annotation", 92 + n * 100, 130 + n * 100, 0) for n in range(9)]
    found = explain(table_of(rows))
    assert [c.text for c in found.idle_devices] == [
        "device 0 was idle 342.000us (36.4 %) because the host waited for the data loader"
    ]


def test_work_that_was_launched_in_time_waited_on_the_device() -> None:
    # The next kernel is launched while one runs.
    _, idle = idle_of(launched(10, 100, 40, lead=90))
    assert idle == ["device 0 was idle 540.000us (57.4 %) because work waited on the device"]


def test_kernels_by_their_share_and_small_ones() -> None:
    rows = launched(4, 100, 2)
    found = [claim.text for claim in explain(table_of(rows)).devices]
    assert found[1].split() == ["100.0", "%", "8.000us", "gemm", "(4", "kernels)"]
    assert found[2] == "4 of 4 kernels take less than 5.000us"


def test_occupancy_small_kernels_that_can_be_joined_and_rates_of_copies() -> None:
    """By the arguments of a loaded trace; kernels of a graph are joined already."""
    events: list[dict[str, Any]] = []

    def add(name: str, category: str, start: int, length: int, **args: Any) -> None:
        on_device = category != "user_annotation"
        place = {"pid": 0, "tid": 7} if on_device else {"pid": 5, "tid": 5}
        times = {"ts": start, "dur": length}
        events.append({"ph": "X", "name": name, "cat": category, "args": args, **times, **place})

    add("main", "user_annotation", 0, 1000)
    held = {"est. achieved occupancy %": 25, "occupancy": {"limitingFactors": "REGS"}}
    add("gemm", "kernel", 0, 300, device=0, stream=7, **held)
    for n in range(4):  # gaps of 18 us
        add("small", "kernel", 320 + 20 * n, 2, device=0, stream=7, **{"est. achieved occupancy %": 75})  # fmt: skip
    for n in range(4):
        add("node", "kernel", 500 + 20 * n, 2, device=0, stream=7, **{"graph id": 3})
    add("Memcpy HtoD (Pageable -> Device)", "gpu_memcpy", 700, 100, device=0, stream=7, bytes=400_000)  # fmt: skip
    add("Memcpy DtoD (Device -> Device)", "gpu_memcpy", 810, 50, device=0, stream=7, bytes=40_000_000)  # fmt: skip
    device = {"id": 0, "memoryClockRate": 2_000_000, "memoryBusWidth": 4000}  # 2000 GB/s
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "trace.json")
        path.write_text(json.dumps({"deviceProperties": [device], "traceEvents": events}))
        found = [claim.text for claim in explain(fastprof.load(path)).devices]
    assert found[1].endswith("gemm  (1 kernel, occupancy 25 %, limited by REGS)")
    assert found[4:] == [
        "kernels held 26 % of the device's threads (occupancy, weighted by time)",
        "8 of 9 kernels take less than 5.000us",
        "1 run of small kernels on one stream, of up to 4, with 54.000us (6.3 %) between them: torch.compile or "
        "a CUDA graph can join them",
        "Memcpy HtoD (Pageable -> Device): 0.4 MB in 100.000us, 4.0 GB/s; pinned memory is faster (pin_memory=True)",
        "Memcpy DtoD (Device -> Device): 40.0 MB in 50.000us, 800.0 GB/s, 80 % of what its memory can move",
    ]
