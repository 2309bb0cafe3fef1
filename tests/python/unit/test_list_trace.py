# SPDX-License-Identifier: Apache-2.0
"""The table that a list of events becomes for the trace writers: rows, tracks, arrows and arguments."""

from __future__ import annotations

import json
from typing import Any

import pytest
from made_events import event

from fastprof.base.device_type import DeviceType
from fastprof.base.native_numbers import Category
from fastprof.exporters.list_trace import table_to_write
from fastprof.model.table import EventFlag, EventKind, EventTable

NODE, DEVICE = 1 << 20, 1 << 21  # first process ids of nodes and devices


def rows_of(table: EventTable) -> list[tuple[Any, ...]]:
    """Return (name, category, kind, start, end, pid, number on its process) of each row."""
    found = []
    for i in range(len(table)):
        site = table.sites[int(table.column("site")[i])]
        track = table.tracks[int(table.column("track")[i])]
        kind = EventKind(int(table.column("kind")[i]))
        times = int(table.start_ns[i]), int(table.end_ns[i])
        found.append((site.name, site.category, kind.name, *times, track.pid, track.tid))
    return found


def arguments(made: Any, row: int = 0) -> Any:
    text = table_to_write([made]).coded["metadata_json"][row]
    return None if text is None else json.loads(text)


def test_events_of_threads_nodes_and_devices() -> None:
    events = [
        event("op", 1, 3.5, thread=7),
        event("mine", 2, 3, thread=8, is_user_annotation=True),
        event("later", 2, 9, thread=7, is_async=True),
        event("there", 0, 4, thread=9, is_remote=True, node_id=3),
        event("k", 5, 8, device_type=DeviceType.CUDA, device_index=2, device_resource_id=20),
        event("step", 5, 9, device_type=DeviceType.CUDA, is_user_annotation=True, device_index=2,
              device_resource_id=20),
        event("hidden", 0, 1, trace_name=None),
        event("shown", 0, 1, trace_name="as this"),
        event("backwards", 5, 4),
        event("open", 5, 6, finished=False),
    ]  # fmt: skip
    table = table_to_write(events)
    assert rows_of(table) == [
        ("op", "cpu_op", "RANGE", 1000, 3500, 0, 7),
        ("mine", "user_annotation", "RANGE", 2000, 3000, 0, 8),
        ("later", "cpu_op", "ASYNC_RANGE", 2000, 9000, 0, 7),
        ("there", "cpu_op", "RANGE", 0, 4000, NODE + 3, 9),
        ("k", "kernel", "RANGE", 5000, 8000, DEVICE + 2, 20),
        ("step", "gpu_user_annotation", "RANGE", 5000, 9000, DEVICE + 2, 20),
        ("as this", "cpu_op", "RANGE", 0, 1000, 0, 1),
        ("backwards", "cpu_op", "RANGE", 5000, 5000, 0, 1),
        ("open", "cpu_op", "RANGE", 5000, 6000, 0, 1),
    ]
    flags = table.column("flags").tolist()
    assert flags == [EventFlag.FINISHED] * 8 + [0]
    assert table.metadata == {
        "processes": [
            {"pid": 0, "name": "CPU functions"},
            {"pid": NODE + 3, "name": "node 3"},
            {"pid": DEVICE + 2, "name": "CUDA 2"},
        ]
    }
    assert (table.pid, table.process_name) == (0, "CPU functions")
    assert [t.device_kind for t in table.tracks] == ["", "", "", "CUDA", ""]
    masks = {site.name: (site.mask, site.device_index) for site in table.sites}
    assert masks["k"] == masks["step"] == (Category.DEVICE, 2) and masks["op"] == (1, -1)


def test_kernels_have_arrows_and_follow_each_other() -> None:
    first = event("a", 10, 20, use_device="xpu")
    for name, device, duration in (("k1", 0, 5.0), ("k2", 0, 3.0), ("k3", 1, 2.0)):
        first.append_kernel(name, device, duration)
    second = event("b", 12, 30)
    second.append_kernel("k4", 0, 40.0, 45.0)  # of a known start, in the older form
    second.append_kernel("k5", 0, 1.0)
    table = table_to_write([first, second])
    assert [row for row in rows_of(table) if row[1] == "kernel"] == [
        ("k1", "kernel", "RANGE", 10_000, 15_000, DEVICE, 0),
        ("k2", "kernel", "RANGE", 15_000, 18_000, DEVICE, 0),
        ("k3", "kernel", "RANGE", 10_000, 12_000, DEVICE + 1, 0),
        ("k4", "kernel", "RANGE", 40_000, 45_000, DEVICE, 0),
        ("k5", "kernel", "RANGE", 45_000, 46_000, DEVICE, 0),
    ]
    arrows = [row for row in rows_of(table) if row[2].startswith("FLOW")]
    assert arrows[:2] == [
        ("a", "cpu_to_xpu", "FLOW_BEGIN", 10_000, 10_000, 0, 1),
        ("a", "cpu_to_xpu", "FLOW_END", 10_000, 10_000, DEVICE, 0),
    ]
    assert [row[:3] for row in arrows[6:8]] == [
        ("b", "cpu_to_cuda", "FLOW_BEGIN"),
        ("b", "cpu_to_cuda", "FLOW_END"),
    ]
    assert table.payload_words is not None and table.payload_words.tolist() == [0, 1, 2, 3, 4]
    payload = table.column("payload").tolist()
    kinds = table.column("kind").tolist()
    assert [p for p, k in zip(payload, kinds, strict=True) if k in (4, 5)] == [
        0,
        0,
        1,
        1,
        2,
        2,
        3,
        3,
        4,
        4,
    ]
    args = [
        json.loads(text) for text in table.coded["metadata_json"] if text and "launched" in text
    ]
    assert args[0] == {"id": 0, "launched by": "a"} and args[3] == {"id": 3, "launched by": "b"}


def test_arguments_of_events() -> None:
    assert arguments(event("a", 0, 1)) is None
    whole = arguments(
        event(
            "a", 0, 1, input_shapes=[[2, 3], []], concrete_inputs=[None, 2.5, "x"], stack=["f", "g"],
            sequence_nr=0, fwd_thread=4, input_dtypes=["float", "Scalar"], structured_input_strides=[[3, 1], []],
        )
    )  # fmt: skip
    assert whole == {
        "Input Dims": [[2, 3], []], "Input Strides": [[3, 1], []], "Input type": ["float", "Scalar"],
        "Concrete Inputs": ["", "2.5", "x"], "Call stack": "f;\ng", "Sequence number": 0, "Fwd thread id": 4,
    }  # fmt: skip
    lists = arguments(event("a", 0, 1, input_shapes=[[]], structured_input_shapes=[[[2], [3]]]))
    assert lists == {"Input Dims": [[[2], [3]]]}
    assert "Sequence number" not in (arguments(event("a", 0, 1, sequence_nr=-1, stack=["f"])))
    assert arguments(event("a", 0, 1, sequence_nr=5)) == {"Sequence number": 5, "Fwd thread id": 0}


@pytest.mark.parametrize(
    ("index", "kept"),
    [(0, 0), (-3, 0), (32766, 32766), (32767, 32767), (32768, 32767), (1 << 40, 32767)],
)
def test_indices_of_devices_stay_within_their_column(index: int, kept: int) -> None:
    made = event("k", 0, 1, device_type=DeviceType.CUDA, device_index=index)
    (site,) = table_to_write([made]).sites
    assert site.device_index == kept
