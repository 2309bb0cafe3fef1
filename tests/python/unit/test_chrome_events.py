# SPDX-License-Identifier: Apache-2.0
"""Chrome traces of event objects: each part of a slice, its args, and the processes and threads around it."""

from __future__ import annotations

import math
from typing import Any

import pytest
from made_events import event

from fastprof.base.device_type import DeviceType
from fastprof.exporters.chrome_python import chrome_events


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


def test_values_that_json_lacks_become_text() -> None:
    shapes = [
        True,
        None,
        2**70,
        1.5,
        math.inf,
        (1, -math.inf),
        {1: {"a\udc80": [math.nan]}},
        "\udc80",
    ]
    assert args_of(input_shapes=shapes)["Input Dims"] == [
        *(True, None, 2**70, 1.5, "inf", [1, "-inf"], {"1": {"a?": ["nan"]}}, "?"),
    ]  # fmt: skip
    assert args_of(input_shapes=[DeviceType])["Input Dims"] == [str(DeviceType)]


def test_times_that_json_lacks_become_zero() -> None:
    (first, second) = slices(event("a", math.nan, 3), event("b", 5, 2))
    assert (first["ts"], first["dur"]) == (0.0, 0)
    assert (second["ts"], second["dur"]) == (5, 0)


def test_each_kind_of_event_has_a_process_and_a_thread_of_its_own() -> None:
    events = [
        event("cpu", 0, 1, thread=4),
        event("gpu", 0, 1, thread=4, device_type=DeviceType.CUDA, device_index=2, device_resource_id=7),
        event("far", 0, 1, thread=4, is_remote=True, node_id=3),
    ]  # fmt: skip
    written = list(chrome_events(events))
    names = {e["pid"]: e["args"]["name"] for e in written if e["name"] == "process_name"}
    found = {e["name"]: (names[e["pid"]], e["tid"]) for e in written if e["ph"] == "X"}
    assert found == {"cpu": ("CPU functions", 4), "gpu": ("CUDA 2", 7), "far": ("node 3", 4)}
    assert len({e["pid"] for e in written if e["ph"] == "X"}) == 3


def test_kernels_follow_one_another_on_their_device() -> None:
    first, second = event("a", 10, 20), event("b", 12, 14)
    first.append_kernel("k1", 0, 5.0)
    first.append_kernel("k2", 1, 2.0)
    second.append_kernel("k3", 0, 1.0)
    second.append_kernel("k4", 0, math.nan)
    written = list(chrome_events([first, second]))
    kernels = {e["name"]: (e["ts"], e["dur"]) for e in written if e.get("cat") == "kernel"}
    assert kernels == {"k1": (10, 5.0), "k2": (10, 2.0), "k3": (15.0, 1.0), "k4": (16.0, 0)}
    args = [e["args"] for e in written if e.get("cat") == "kernel"]
    assert args[0] == {"id": 0, "launched by": "a"} and args[3] == {"id": 3, "launched by": "b"}
    arrows = [(e["ph"], e["id"], e["ts"], e["tid"]) for e in written if e["ph"] in "sf"]
    assert arrows[:2] == [("s", 0, 10, 1), ("f", 0, 10, 0)]
    assert arrows[4:6] == [("s", 2, 12, 1), ("f", 2, 15.0, 0)]
