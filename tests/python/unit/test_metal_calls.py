# SPDX-License-Identifier: Apache-2.0
"""fastprof.metal where there is Metal: what it asks of the native module, which here only notes it."""

from __future__ import annotations

import sys
from typing import Any

import pytest

from fastprof import metal
from fastprof.metal import LogOptions

OPERATION = {
    "profile_id": 3, "is_graph": True, "name": "add", "run_count": 4, "completed_count": 3, "gpu_ms": 6.0,
    "scheduling_ms": 0.5,
}  # fmt: skip
FALLBACK = {
    "profile_id": 1, "op_name": "sort", "run_count": 2, "cpu_ms": 1.5, "copy_overhead_bytes": 64,
}  # fmt: skip
COPY = {
    "kind": "MPS to CPU", "count": 5, "bytes": 4096, "gpu_ms": 0.25, "scheduling_ms": 0.125, "scalar_count": 1,
    "scalar_gpu_ms": 0.0625, "blocking_count": 2, "memcpy_count": 3,
}  # fmt: skip
COUNTS = {
    "graph_count": 1, "kernel_count": 2, "copy_count": 3, "fallback_count": 4, "failed_count": 5, "pending_count": 6,
}  # fmt: skip


class Native:
    """Notes its calls; has statistics of one operation, fallback and copy."""

    def __init__(self) -> None:
        self.calls: list[tuple[Any, ...]] = []

    def __getattr__(self, name: str) -> Any:
        answers = {
            "metal_start_capture": "0001-here.gputrace",
            "metal_options": (1, 2, 0x18),
            "metal_tables": "tables",
            "metal_is_capturing": True,
            "metal_capture_enabled": True,
            "metal_statistics": {"operations": [OPERATION], "fallbacks": [FALLBACK], "copies": [COPY], **COUNTS},
        }  # fmt: skip

        def call(*args: Any) -> Any:
            self.calls.append((name, *args))
            return self if name == "SignpostEmission" else answers.get(name)

        return call


@pytest.fixture
def native(monkeypatch: pytest.MonkeyPatch) -> Native:
    from fastprof.record import metal as module

    double = Native()
    monkeypatch.setattr(module, "_core", double)
    monkeypatch.setattr(module, "metal_problem", lambda: None)
    return double


def test_signposts_last_as_long_as_their_block(
    native: Native, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(sys.modules, "torch", raising=False)  # its ops would be emitted, too

    def fail() -> None:
        with metal.profile("interval,event", True):
            native.calls.append(("work",))
            raise KeyError

    with pytest.raises(KeyError):
        fail()
    with metal.emit_signposts():
        native.calls.append(("work",))
    metal.start()
    metal.stop()
    assert native.calls == [
        ("metal_start", "interval,event", True), ("work",), ("metal_stop",),
        ("SignpostEmission",), ("begin",), ("work",), ("end",),
        ("metal_start", "interval", False), ("metal_stop",),
    ]  # fmt: skip


def test_a_capture_ends_with_its_block_and_has_a_path(native: Native) -> None:
    with metal.metal_capture("here") as path:
        assert path == "0001-here.gputrace"
        assert native.calls == [("metal_start_capture", "here")]
    assert native.calls[1:] == [("metal_stop_capture",)]
    assert metal.is_metal_capture_enabled() and metal.is_capturing_metal()


def test_statistics_are_those_of_finished_work(native: Native) -> None:
    found = metal.statistics(wait_s=2.5)
    assert native.calls == [("metal_wait_for_pending", 2.5), ("metal_statistics",)]
    assert found == metal.MetalStatistics(
        operations=(metal.OperationStatistics(**OPERATION),),
        fallbacks=(metal.FallbackStatistics(**FALLBACK),),
        copies=(metal.CopyStatistics(**COPY),),
        **COUNTS,
    )
    assert found.operations[0].mean_gpu_ms == 1.5
    assert metal.OperationStatistics(1, False, "none", 0, 0, 0.0, 0.0).mean_gpu_ms == 0


def test_tables_and_options(native: Native) -> None:
    assert metal.log_options() == LogOptions.ALL_STATS | LogOptions.OPERATION_STATS
    metal.set_log_options(LogOptions.COPY_INFO | LogOptions.INCLUDE_BUFFER_ID)
    assert metal.tables() == "tables"
    assert metal.tables(LogOptions.COPY_STATS, wait_s=0) == "tables"
    assert native.calls == [
        ("metal_options",), ("metal_set_log_options", 0x202), ("metal_wait_for_pending", 10.0),
        ("metal_tables", 8), ("metal_tables", 0x20),
    ]  # fmt: skip
    native.calls.clear()
    metal.statistics(wait_s=0)
    assert native.calls == [("metal_statistics",)]
