# SPDX-License-Identifier: Apache-2.0
"""Chrome traces of event objects: each part of a slice, its args, and the processes and threads around it."""

from __future__ import annotations

import json
import math
import os
import tempfile
from typing import Any

import plain_chrome_events
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from made_events import event

from fastprof.base.device_type import DeviceType
from fastprof.exporters.list_trace import export_chrome_trace


def chrome_events(events: list[Any]) -> list[dict[str, Any]]:
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "t.json")
        export_chrome_trace(events, path)
        with open(path, encoding="utf-8") as file:
            found: list[dict[str, Any]] = json.load(file)["traceEvents"]
    return found


def slices(*events: Any) -> list[dict[str, Any]]:
    return [e for e in chrome_events(list(events)) if e["ph"] == "X"]


def args_of(**fields: Any) -> dict[str, Any]:
    (found,) = slices(event("op", 0, 1, **fields))
    args: dict[str, Any] = found["args"]
    return args


@pytest.mark.parametrize(
    ("fields", "args"),
    [
        ({}, {}),
        ({"input_shapes": [[2, 3], []]}, {"Input Dims": [[2, 3], []]}),
        (
            {"input_shapes": [[2]], "structured_input_shapes": ((2, 1),)},
            {"Input Dims": [[2, 1]]},
        ),
        (
            {"input_dtypes": ["float", ""], "concrete_inputs": [None, 3]},
            {"Input Strides": None, "Input type": ["float", ""], "Concrete Inputs": ["", "3"]},
        ),
        (
            {"input_dtypes": ["float"], "structured_input_strides": [(1,)]},
            {"Input Strides": [[1]], "Input type": ["float"], "Concrete Inputs": []},
        ),
        ({"stack": ["a.py(1): f", "b\udc80"]}, {"Call stack": "a.py(1): f;\nb?"}),
        ({"stack": []}, {}),
        ({"sequence_nr": 0}, {"Sequence number": 0, "Fwd thread id": 0}),
        ({"sequence_nr": 5, "fwd_thread": 3}, {"Sequence number": 5, "Fwd thread id": 3}),
        ({"sequence_nr": None}, {}),
        ({"finished": False}, {"finished": False}),
    ],
)
def test_args(fields: dict[str, Any], args: dict[str, Any]) -> None:
    assert args_of(**fields) == args


def test_each_kind_of_event_has_a_process_and_a_thread_of_its_own() -> None:
    events = [
        event("cpu", 0, 1, thread=4),
        event("gpu", 0, 1, thread=4, device_type=DeviceType.CUDA, device_index=2, device_resource_id=7),
        event("far", 0, 1, thread=4, is_remote=True, node_id=2),
    ]  # fmt: skip
    written = list(chrome_events(events))
    names = {e["pid"]: e["args"]["name"] for e in written if e["name"] == "process_name"}
    threads = {
        (e["pid"], e["tid"]): e["args"]["name"] for e in written if e["name"] == "thread_name"
    }
    found = {
        e["name"]: (names[e["pid"]], threads[e["pid"], e["tid"]]) for e in written if e["ph"] == "X"
    }
    assert found == {
        "cpu": ("CPU functions", "thread 4"),
        "gpu": ("CUDA 2", "stream 7"),
        "far": ("node 2", "thread 4 (tid 4)"),  # a number of its own: tids are unique in a trace
    }
    assert len({e["pid"] for e in written if e["ph"] == "X"}) == 3


# ---- the plain form as oracle --------------------------------------------------------------------

names = st.text('ab \udc80"\\\n\u00e9', max_size=5)
# Whole numbers of ns, so that sums of both forms agree.
times = st.integers(-(10**6), 10**12).map(lambda eighths: eighths / 8) | st.sampled_from(
    [0.0, math.nan, math.inf, -math.inf]
)
fields = st.fixed_dictionaries(
    {},
    optional={
        "use_device": st.sampled_from([None, "cuda", "xpu"]),
        "device_type": st.sampled_from([DeviceType.CPU, DeviceType.CPU, DeviceType.CUDA]),
        "device_index": st.integers(0, 3),
        "device_resource_id": st.integers(0, 9),
        "is_user_annotation": st.booleans(),
        "is_remote": st.booleans(),
        "node_id": st.integers(-1, 3),
        "trace_name": st.none() | names,
        "input_shapes": st.lists(st.lists(st.integers(0, 9), max_size=3), max_size=3),
        "input_dtypes": st.lists(names, max_size=2),
        "concrete_inputs": st.lists(st.none() | names | st.floats(), max_size=2),
        "stack": st.none() | st.lists(names, max_size=3),
        "sequence_nr": st.integers(-1, 9),
        "fwd_thread": st.none() | st.integers(0, 9),
        "finished": st.booleans(),
    },
)
kernels = st.tuples(names, st.integers(0, 2), times, st.none() | times)


def facts(events: list[dict[str, Any]]) -> list[str]:
    """What a viewer shows of each event, wherever it is placed: threads are known by name in one form only."""
    processes = {e["pid"]: e["args"]["name"] for e in events if e["name"] == "process_name"}

    def ns(us: float) -> int:
        return round(min(max(us, -4e15), 4e15) * 1000)

    def same(text: str) -> str:
        return text.replace("\ufffd", "?").encode("utf-8", "replace").decode()

    return sorted(
        same(
            f"{e['ph']} {e['name']} {e['cat']} {processes[e['pid']]} {ns(e['ts'])} "
            f"{ns(e.get('dur', 0))} {e.get('id')} {e.get('bp')} {json.dumps(e.get('args'))}"
        )
        for e in events
        if e["ph"] != "M"
    )


@settings(max_examples=100, deadline=None)
@given(
    st.lists(
        st.tuples(names, times, times, st.integers(0, 3), fields, st.lists(kernels, max_size=3)),
        max_size=5,
    )
)
def test_every_event_of_the_plain_form_is_written(made: list[Any]) -> None:
    events = []
    for name, start, end, thread, more, attached in made:
        events.append(event(name, start, end, thread, **more))
        if events[-1].device_type == DeviceType.CPU:
            for kernel, device, first, last in attached:
                events[-1].append_kernel(kernel, device, first, last)
    assert facts(chrome_events(events)) == facts(list(plain_chrome_events.chrome_events(events)))
