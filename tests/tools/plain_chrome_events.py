# SPDX-License-Identifier: Apache-2.0
"""Trace events of a list of FunctionEvents, made one at a time: the oracle for tests of exporters/list_trace.py."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from typing import Any

from fastprof.base.device_type import DeviceType

__all__ = ["chrome_events"]

# pid and tid are integers, so that every reader keeps the tracks apart; labels name them.
_CPU_PID = 0
_NODE_PID = 1 << 20
_DEVICE_PID = 1 << 21


def chrome_events(events: Iterable[Any]) -> Iterator[dict[str, Any]]:
    """Yield the trace events of a list: process metadata, slices, and kernels with their flows.

    A CPU event is a slice on its thread. Each of its kernels is a slice on the device's track, linked
    to the CPU slice by a flow; kernels without a known start are placed one after the other from the
    event's start. Remote events are in a process "node N". Events without a trace_name are left out.
    """
    named: set[int] = set()
    next_flow = 0
    device_free: dict[tuple[str, int], float] = {}

    def process(pid: int, label: str, sort_index: int) -> Iterator[dict[str, Any]]:
        if pid in named:
            return
        named.add(pid)
        for name, args in (
            ("process_name", {"name": label}),
            ("process_sort_index", {"sort_index": sort_index}),
        ):
            yield {"name": name, "ph": "M", "pid": pid, "tid": 0, "ts": 0, "args": args}

    for event in events:
        if event.trace_name is None:
            continue
        start, duration = event.time_range.start, event.time_range.elapsed_us()
        if event.device_type != DeviceType.CPU:
            pid, tid = _DEVICE_PID + int(event.device_index), int(event.device_resource_id)
            label = f"{event.device_type.name} {event.device_index}"
            category = "gpu_user_annotation" if event.is_user_annotation else "kernel"
        elif event.is_remote:
            pid, tid = _NODE_PID + int(event.node_id), int(event.thread)
            label, category = f"node {event.node_id}", "cpu_op"
        else:
            pid, tid, label, category = _CPU_PID, int(event.thread), "CPU functions", "cpu_op"
        if event.is_user_annotation and event.device_type == DeviceType.CPU:
            category = "user_annotation"
        yield from process(pid, label, pid)
        slice_ = {
            "name": _safe_text(event.trace_name),
            "ph": "X",
            "cat": category,
            "ts": _finite(start),
            "dur": max(_finite(duration), 0),
            "pid": pid,
            "tid": tid,
            "args": _arguments(event),
        }
        yield slice_
        device_name = event.use_device or "cuda"
        for kernel in event.kernels:
            device_pid = _DEVICE_PID + int(kernel.device)
            yield from process(device_pid, f"{device_name} {kernel.device}", device_pid)
            track = (device_name, int(kernel.device))
            begin = kernel.start_us
            if begin is None:
                begin = max(_finite(start), device_free.get(track, -math.inf))
            begin = _finite(begin)
            device_free[track] = begin + max(_finite(kernel.duration), 0)
            flow = {"name": slice_["name"], "cat": f"cpu_to_{device_name}", "id": next_flow}
            next_flow += 1
            yield {**flow, "ph": "s", "ts": slice_["ts"], "pid": pid, "tid": tid}
            yield {**flow, "ph": "f", "bp": "e", "ts": begin, "pid": device_pid, "tid": 0}
            yield {
                "name": _safe_text(kernel.name),
                "ph": "X",
                "cat": "kernel",
                "ts": begin,
                "dur": max(_finite(kernel.duration), 0),
                "pid": device_pid,
                "tid": 0,
                "args": {"id": flow["id"], "launched by": slice_["name"]},
            }


def _arguments(event: Any) -> dict[str, Any]:
    arguments: dict[str, Any] = {}
    if event.input_shapes:
        structured = event.structured_input_shapes
        arguments["Input Dims"] = _plain(structured or event.input_shapes)
    if event.input_dtypes:
        arguments["Input Strides"] = _plain(event.structured_input_strides)
        arguments["Input type"] = _plain(event.input_dtypes)
        arguments["Concrete Inputs"] = [
            "" if value is None else str(value) for value in event.concrete_inputs or ()
        ]
    if event.stack:
        arguments["Call stack"] = _safe_text(";\n".join(map(str, event.stack)))
    if event.sequence_nr is not None and event.sequence_nr >= 0:
        arguments["Sequence number"] = int(event.sequence_nr)
        arguments["Fwd thread id"] = int(event.fwd_thread or 0)
    if not event.finished:
        arguments["finished"] = False
    return arguments


def _plain(value: Any) -> Any:
    """Convert to JSON values: NaN and infinities to text, unknown objects to their str()."""
    if isinstance(value, bool) or value is None:
        return value
    if isinstance(value, int):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    if isinstance(value, dict):
        return {_safe_text(str(key)): _plain(item) for key, item in value.items()}
    return _safe_text(str(value))


def _safe_text(text: str) -> str:
    """Return the text with lone surrogates replaced, so that strict readers accept the file."""
    return text.encode("utf-8", "replace").decode() if not text.isascii() else text


def _finite(value: float) -> float:
    return value if math.isfinite(value) else 0.0
