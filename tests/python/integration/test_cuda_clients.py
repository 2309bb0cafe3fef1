# SPDX-License-Identifier: Apache-2.0
"""CUPTI as real machines show it: other clients, refused kinds, calls switched off, stamps of another clock."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from cuda_double import run
from needs import NEEDS_CUPTI_HEADERS

pytestmark = [pytest.mark.integrations, NEEDS_CUPTI_HEADERS]

# Another client, which does not subscribe: it registers its own buffers and enables and disables kinds.
_OTHER = """
import warnings
warnings.simplefilter("ignore")
request = ctypes.CFUNCTYPE(None, *[ctypes.POINTER(ctypes.c_size_t)] * 3)
complete = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_uint32, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_size_t)
theirs, foreign = {}, []
@request
def hand_out(buffer, size, most):
    memory = ctypes.create_string_buffer(1 << 20)
    theirs[ctypes.addressof(memory)] = memory
    buffer[0], size[0], most[0] = ctypes.addressof(memory), 1 << 20, 0
@complete
def take(context, stream, buffer, size, valid):
    if buffer not in theirs: foreign.append(buffer)
def other_begins():
    gpu.cuptiActivityRegisterCallbacks(hand_out, take)
    for kind in (5, 10): gpu.cuptiActivityEnable(kind)
def kernels(prof):
    return len(rows(prof.event_table, "kernel"))
"""


def _seen(double: Path, program: str, folder: Path, **environment: str) -> Any:
    return run(double, _OTHER + program, folder, **environment)


def test_records_that_another_client_took_are_reported(double: Path, tmp_path: Path) -> None:
    count, missing, lost = _seen(double, """
with profile(activities=both) as prof:
    launch()
    other_begins()
    launch()
print(json.dumps([kernels(prof), prof.missing.get("CUDA", ""), len(foreign)]))
os._exit(0)
""", tmp_path)  # fmt: skip
    assert count == 0 and lost == 1
    assert "another client of CUPTI took over" in missing and "End the other profiler" in missing


def test_buffers_of_another_client_are_left_alone(double: Path, tmp_path: Path) -> None:
    """A profile that begins while another client has buffers handed out neither frees nor reads them."""
    assert _seen(double, """
other_begins()
launch()  # into a buffer of theirs, which comes back to us
with profile(activities=both) as prof:
    launch(); launch()
again = profile(activities=both)
with again:
    launch()
print(json.dumps([kernels(prof) <= 2, kernels(again), again.missing, len(theirs)]))
os._exit(0)
""", tmp_path) == [True, 1, {}, 1]  # fmt: skip


def test_kernels_with_stamps_of_another_clock_are_dropped_and_counted(
    double: Path, tmp_path: Path
) -> None:
    """As pytorch#192021: records after a repeated registration of the clock have the clock before it."""
    count, dropped, missing, most_us = _seen(double, """
with profile(activities=both) as prof:
    gpu.fake_spoil_stamps(2)
    for _ in range(5): launch()
print(json.dumps([kernels(prof), prof.event_table.dropped.get("device"), prof.missing["CUDA"],
                  max(e.device_time_total for e in prof.key_averages())]))
""", tmp_path)  # fmt: skip
    assert (count, dropped) == (3, 2) and most_us < 1e6
    assert "2 CUDA activities were dropped" in missing and "another clock" in missing


def test_the_clock_is_registered_once_a_process(double: Path, tmp_path: Path) -> None:
    counts = _seen(double, """
counts = []
for _ in range(3):
    with profile(activities=both) as prof:
        for _ in range(4): launch()
    counts.append([kernels(prof), sum(prof.event_table.dropped.values()), prof.missing])
print(json.dumps(counts))
""", tmp_path, FAKE_CUPTI_STALE_STAMPS="2")  # fmt: skip
    assert counts == [[4, 0, {}]] * 3


@pytest.mark.parametrize("code", [35, 43])
def test_refused_kernels_have_a_reason(double: Path, tmp_path: Path, code: int) -> None:
    missing = _seen(double, """
with profile(activities=both) as prof:
    launch()
print(json.dumps(prof.missing["CUDA"]))
""", tmp_path, FAKE_CUPTI_FAIL=f"cuptiActivityEnable:10={code}")  # fmt: skip
    assert "kernels are not recorded" in missing
    assert {35: "ERR_NVGPUCTRPERM", 43: "MIG"}[code] in missing


def test_a_refused_kind_is_named_and_the_others_are_recorded(double: Path, tmp_path: Path) -> None:
    count, missing = _seen(double, """
with profile(activities=both) as prof:
    launch(); copy()
print(json.dumps([kernels(prof), prof.missing["CUDA"]]))
""", tmp_path, FAKE_CUPTI_FAIL="cuptiActivityEnable:1=1")  # fmt: skip
    assert count == 1 and "copies are not recorded" in missing


def test_the_first_active_step_finds_cupti_active(double: Path, tmp_path: Path) -> None:
    """CUPTI instruments launches from the warm-up on, and what it records there is discarded."""
    found = _seen(double, """
found = []
def ready(p):
    found.append([p.event_table.name(r) for r in rows(p.event_table, "kernel")])
with profile(activities=both, schedule=fastprof.schedule(wait=1, warmup=1, active=1, repeat=2),
             on_trace_ready=ready) as prof:
    for step in range(6):
        active = gpu.fake_enabled_kinds() > 0
        launch(f"step{step} {active}".encode())
        prof.step()
print(json.dumps([found, gpu.fake_enabled_kinds()]))
""", tmp_path)  # fmt: skip
    assert found == [[["step2 True"], ["step5 True"]], 0]
