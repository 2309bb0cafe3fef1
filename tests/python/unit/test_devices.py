# SPDX-License-Identifier: Apache-2.0
"""Devices that are written in Python: registering them, what profiles have of them, and what they do wrong."""

from __future__ import annotations

import gc
import json
import subprocess
import sys
import threading
import time
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fastprof
from fastprof import ProfilerActivity, devices, errors, profile, record_function
from fastprof.devices import NO_INDEX, ActivityType, ArgumentType, DeviceSink
from fastprof.profiler.device_collections import DeviceCollections
from fastprof.record import devices as registry

BOTH = (ProfilerActivity.CPU, ProfilerActivity.PrivateUse1)


class Npu:
    """An accelerator of Python: launch() notes what end() reports."""

    name = "pynpu"

    def __init__(self) -> None:
        self.launched: list[tuple[str, int, int, int]] = []
        self.types: list[Sequence[str]] = []
        self.abandoned = 0

    def launch(self, name: str, duration_ns: int = 1000) -> None:
        begin = time.monotonic_ns()
        self.launched.append((name, threading.get_native_id(), begin, duration_ns))

    def begin(self, types: Sequence[str]) -> int:
        self.types.append(types)
        return len(self.launched)

    def end(self, collection: int, sink: DeviceSink) -> None:
        call = sink.kind("npuLaunch", ActivityType.CALL)
        queue = sink.queue(1, 5)
        for number, (name, thread, at, duration_ns) in enumerate(self.launched[collection:], 1):
            kernel = sink.kind(name, ActivityType.KERNEL, [("tiles", ArgumentType.INT64)])
            place = sink.thread(thread)
            assert sink.add(call, place, [at], [at + 10], correlation=number) == 1
            sink.add(
                kernel, queue, [at + 5000], [at + 5000 + duration_ns], number,
                sink.text('{"shape":[2,3]}'), [[number * 7]],
            )  # fmt: skip

    def abandon(self, collection: int) -> None:
        self.abandoned += 1


@pytest.fixture
def no_devices(monkeypatch: pytest.MonkeyPatch) -> None:
    """A registry of this test's own."""
    monkeypatch.setattr(registry, "_devices", {})
    monkeypatch.setattr(registry, "_refused", {})
    monkeypatch.setattr(registry, "_installed_are_loaded", True)
    monkeypatch.setattr("fastprof.profiler.options._warned", set())  # warn again


@pytest.fixture
def npu(no_devices: None) -> Npu:
    device = Npu()
    devices.register(device)
    return device


def kernels(prof: profile) -> list[tuple[str, str, int]]:
    return sorted((e.name, k.name, k.device) for e in prof.events() for k in e.kernels)


def test_work_has_ranges_arguments_and_tracks(npu: Npu, tmp_path: Path) -> None:
    with profile(activities=BOTH) as prof:
        with record_function("first"):
            npu.launch("gemm", 2_000_000)
        with record_function("second"):
            npu.launch("relu")
    assert kernels(prof) == [("first", "gemm", 1), ("second", "relu", 1)]
    assert prof.use_device == "pynpu" and prof.missing == {}
    assert "Self PYNPU" in prof.key_averages().table()
    prof.export_chrome_trace(tmp_path / "t.json")
    events = json.loads((tmp_path / "t.json").read_text())["traceEvents"]
    (gemm,) = [e for e in events if e.get("name") == "gemm"]
    args = gemm["args"]
    assert (args["device"], args["stream"], args["tiles"], args["shape"]) == (1, 5, 7, [2, 3])
    assert gemm["dur"] == pytest.approx(2000, rel=0.01)
    labels = [e["args"]["labels"] for e in events if e.get("name") == "process_labels"]
    assert sorted(labels) == ["CPU", "pynpu 1"]


def test_by_name_and_by_types(npu: Npu) -> None:
    with profile(activities=[ProfilerActivity.CPU], use_device="pynpu") as prof:
        npu.launch("gemm")
    assert "gemm" in prof.event_table.names and prof.use_device == "pynpu"
    with profile(activities=[{ProfilerActivity.PrivateUse1: ["gpu_memcpy"]}]) as copies:
        npu.launch("gemm")
    assert "gemm" not in copies.event_table.names
    assert npu.types[-1] == ("gpu_memcpy",)
    with pytest.raises(errors.UnavailableError, match="KERNEL"):
        profile(activities=[{ProfilerActivity.PrivateUse1: ["cuda_runtime"]}])
    with profile(activities=[ProfilerActivity.CPU]) as without:
        npu.launch("gemm")
    assert "gemm" not in without.event_table.names
    with profile() as everything:  # what is supported
        npu.launch("gemm")
    assert "gemm" in everything.event_table.names


def test_supported_while_usable(npu: Npu) -> None:
    assert ProfilerActivity.PrivateUse1 in fastprof.supported_activities()
    npu.problem = lambda: "it is being repaired"  # type: ignore[attr-defined]
    assert ProfilerActivity.PrivateUse1 not in fastprof.supported_activities()
    with pytest.warns(UserWarning, match="it is being repaired"):
        assert "PrivateUse1" in profile(activities=BOTH).missing
    npu.problem = lambda: 1 / 0  # type: ignore[attr-defined]
    with pytest.warns(UserWarning, match="raised ZeroDivisionError"):
        profile(activities=BOTH)
    devices.unregister("pynpu")
    with pytest.warns(UserWarning, match=r"no device plug-in is registered for it"):
        profile(activities=BOTH)
    with pytest.raises(errors.ValueError, match="there is no device named"):
        devices.unregister("pynpu")


class Named:
    """A device that does nothing."""

    def __init__(self, name: Any, activity: Any = None) -> None:
        self.name = name
        if activity is not None:
            self.activity = activity

    def begin(self, types: Sequence[str]) -> None:
        pass

    def end(self, collection: None, sink: DeviceSink) -> None:
        pass

    def abandon(self, collection: None) -> None:
        pass


@pytest.mark.usefixtures("no_devices")
def test_registering() -> None:
    one, same_name = Named("one"), Named("one")
    assert devices.register(one) is devices.register(one)
    assert [d.name for d in devices.registered()] == ["one"]
    with pytest.raises(errors.ValueError, match="unregister"):
        devices.register(same_name)
    devices.unregister("one")
    assert devices.register(same_name).python is same_name
    assert devices.register(Named("two", "XPU")).activity is ProfilerActivity.XPU
    assert ProfilerActivity.XPU in fastprof.supported_activities()
    for name in ("cuda", "cpu", "Upper", "", "a" * 33, "a-b", 5, None):
        with pytest.raises(errors.ValueError, match="name"):
            devices.register(Named(name))
    with pytest.raises(errors.ValueError, match="has the name of the activity"):
        devices.register(Named("hpu"))
    assert devices.register(Named("hpu", "HPU")).name == "hpu"
    for activity in ("CUDA", "CPU"):
        with pytest.raises(errors.ValueError, match="cannot record"):
            devices.register(Named("three", activity))
    with pytest.raises(errors.ValueError, match="lacks begin, end, abandon"):
        devices.register(object())  # type: ignore[arg-type]
    with pytest.raises(errors.UnavailableError, match="does not exist"):
        devices.register("nothing.so")
    assert devices.find("two") is not None and devices.find("three") is None


@pytest.mark.parametrize("what", ["begin", "end", "clock", "clock at the end", "hz"])
def test_a_device_that_raises_costs_only_its_work(npu: Npu, what: str) -> None:
    def fail(*_: Any) -> Any:
        raise RuntimeError("out of order")

    if what in ("begin", "end", "clock"):
        setattr(npu, what, fail)
    elif what == "hz":
        npu.clock_hz = 0  # type: ignore[attr-defined]
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        with profile(activities=BOTH) as prof:
            with record_function("range"):
                npu.launch("gemm")
            if what == "clock at the end":
                prof._recording._devices._open["pynpu"]._read_clock = fail  # type: ignore[union-attr]
    assert len(told) == 1
    assert "range" in prof.event_table.names
    assert ("clock_hz" if what == "hz" else "out of order") in prof.missing["pynpu"]


def test_an_interrupt_while_the_device_is_waited_for(npu: Npu) -> None:
    def end(*_: Any) -> None:
        raise KeyboardInterrupt

    npu.end = end  # type: ignore[method-assign]
    prof = profile(activities=BOTH)
    prof.start()
    with record_function("range"):
        pass
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        with pytest.raises(KeyboardInterrupt):
            prof.stop()
        prof.stop()
    assert [
        str(w.message) for w in told if "was interrupted, so its work is missing" in str(w.message)
    ]
    assert "range" in prof.event_table.names and "interrupted" in prof.missing["pynpu"]


def test_invalid_reports_are_counted_and_the_rest_is_kept(npu: Npu) -> None:
    answers: list[Any] = []

    def end(collection: int, sink: Any) -> None:
        kernel = sink.kind("kernel", ActivityType.KERNEL)
        queue = sink.queue(0, 0, "the queue")
        now = time.monotonic_ns()
        answers.append(sink.queue(-1, 0) == sink.thread(-1) == sink.text("[1]") == NO_INDEX)
        answers.append(sink.kind("none", 99) == NO_INDEX)
        answers.append(sink.add(kernel, queue, np.array([now, 0, 5], np.uint64), [now, 1, 4]))
        answers.append(sink.add([kernel, 7], [queue, queue], [now, now], [now, now]))
        for wrong in (
            lambda: sink.add(kernel, queue, [now], [now, now]),
            lambda: sink.add([kernel] * 3, queue, [now, now], [now, now]),
            lambda: sink.add("kernel", queue, [now], [now]),
            lambda: sink.add(sink.kind("with", 0, [("a", 0)]), queue, [now], [now]),
            lambda: sink.kind("with", 0, [("a", 17)]),
        ):
            with pytest.raises((errors.ValueError, TypeError)):
                wrong()
        sink.dropped(3)
        sink.problem("half of it was lost")

    npu.end = end  # type: ignore[method-assign]
    prof = profile(activities=BOTH)
    prof.start()
    with pytest.warns(UserWarning, match="half of it was lost"):
        prof.stop()
    assert answers == [True, True, 1, 1]
    assert prof.event_table.names.count("kernel") == 1  # a name, of two rows
    assert prof.event_table.dropped["device"] == 3
    for part in ("half of it was lost", "(2 times)", "unknown kind (1 times)"):
        assert part in prof.missing["pynpu"]


def test_nested_threads_steps_and_copies(npu: Npu) -> None:
    found: list[int] = []

    def count(p: profile) -> int:
        names = p.event_table.sites.field("category")
        return sum(names[site] == "kernel" for site in p.event_table.column("site"))

    schedule = fastprof.schedule(wait=1, warmup=1, active=1, repeat=2)
    with profile(
        activities=BOTH, schedule=schedule, on_trace_ready=lambda p: found.append(count(p))
    ) as p:
        for _ in range(6):
            npu.launch("step")
            p.step()
    assert found == [1, 1] and npu.abandoned == 0
    outer, inner = profile(activities=BOTH), profile(activities=BOTH)
    outer.start()
    inner.start()
    workers = [
        threading.Thread(target=lambda: [npu.launch("threaded") for _ in range(50)])
        for _ in range(4)
    ]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    outer.stop()
    npu.launch("late")
    inner.stop()
    assert (count(outer), count(inner)) == (200, 201)
    collections = DeviceCollections({"pynpu": ("kernel",)}, lambda name, why: None)
    collections.prepare()
    del collections  # as a recording that is dropped while it runs
    gc.collect()
    assert npu.abandoned == 1


def test_the_same_columns_are_read_from_files(npu: Npu, tmp_path: Path) -> None:
    with profile(activities=BOTH) as prof:
        npu.launch("gemm")
    fastprof.save(prof.event_table, tmp_path / "t.fastprof")
    loaded = fastprof.load(tmp_path / "t.fastprof")
    assert [t.device_kind for t in loaded.tracks] == [
        t.device_kind for t in prof.event_table.tracks
    ]
    assert {t.device_kind for t in loaded.tracks} == {"", "pynpu"}


def test_a_child_forked_while_a_device_is_registered_can_register() -> None:
    code = """
import os, threading
from fastprof.record import devices

held, done = threading.Event(), threading.Event()
def hold():
    with devices._lock:
        held.set()
        done.wait()
thread = threading.Thread(target=hold)
thread.start()
held.wait()
child = os.fork()
if child == 0:
    os._exit(0 if devices._lock.acquire(timeout=60) else 1)
done.set()
thread.join()
raise SystemExit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", code], timeout=120, check=False)
    assert done.returncode == 0
