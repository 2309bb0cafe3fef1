# SPDX-License-Identifier: Apache-2.0
"""FunctionEvent and FunctionEventAvg: values of all fields by default, arguments, what an average keeps."""

from __future__ import annotations

from typing import Any

import pytest
from made_events import event

from fastprof.base.device_type import DeviceType
from fastprof.views import FunctionEvent, FunctionEventAvg

DEFAULTS: dict[str, Any] = {
    "id": 3,
    "node_id": -1,
    "name": "op",
    "overload_name": None,
    "trace_name": "op",
    "thread": 5,
    "fwd_thread": None,
    "kernels": [],
    "count": 1,
    "cpu_children": [],
    "cpu_parent": None,
    "input_shapes": None,
    "concrete_inputs": None,
    "kwinputs": None,
    "stack": None,
    "scope": 0,
    "use_device": None,
    "cpu_memory_usage": 0,
    "device_memory_usage": 0,
    "is_async": False,
    "is_remote": False,
    "sequence_nr": -1,
    "device_type": DeviceType.CPU,
    "device_index": 0,
    "device_resource_id": 5,
    "is_legacy": False,
    "flops": None,
    "is_user_annotation": False,
    "is_python_function": False,
    "activity_type": None,
    "self_cpu_percent": -1,
    "total_cpu_percent": -1,
    "total_device_percent": -1,
    "metadata_json": None,
    "flow_id": None,
    "flow_type": None,
    "flow_start": None,
    "external_id": 0,
    "linked_correlation_id": 0,
    "event_metadata": None,
    "structured_input_shapes": None,
    "structured_input_strides": None,
    "input_dtypes": None,
    "python_id": -1,
    "python_parent_id": -1,
    "python_module_id": -1,
    "finished": True,
}


def test_an_event_has_every_field() -> None:
    made = FunctionEvent(3, "op", 5, 10.0, 12.5)
    fields = {name: value for name, value in vars(made).items() if name in DEFAULTS}
    assert fields == DEFAULTS
    assert (made.time_range.start, made.time_range.end) == (10.0, 12.5)
    assert set(FunctionEvent.__annotations__) - {"time_range"} <= set(DEFAULTS)
    for name, value in DEFAULTS.items():
        if isinstance(value, (bool, type(None))):
            assert fields[name] is value, name


NO_ARGUMENTS = {
    *("id", "name", "thread", "kernels", "count", "cpu_children", "cpu_parent", "event_metadata"),
    *("self_cpu_percent", "total_cpu_percent", "total_device_percent"),
}


@pytest.mark.parametrize("name", sorted(DEFAULTS.keys() - NO_ARGUMENTS))
def test_arguments_become_the_fields_of_their_names(name: str) -> None:
    value: Any = DeviceType.CUDA if name == "device_type" else 7
    assert getattr(FunctionEvent(3, "op", 5, 10.0, 12.5, **{name: value}), name) == value


def test_old_names_of_devices_are_accepted() -> None:
    assert event("op", 0, 1, use_cuda=True).use_device == "cuda"
    assert event("op", 0, 1, use_cuda=True, use_device="xpu").use_device == "xpu"
    assert event("op", 0, 1, cuda_memory_usage=9).device_memory_usage == 9
    assert event("op", 0, 1, cuda_memory_usage=0, device_memory_usage=9).device_memory_usage == 0
    assert event("op", 0, 1, trace_name=None).trace_name is None


AVERAGE: dict[str, Any] = {
    "key": None,
    "count": 0,
    "node_id": 0,
    "is_async": False,
    "is_remote": False,
    "use_device": None,
    "cpu_time_total": 0,
    "device_time_total": 0,
    "self_cpu_time_total": 0,
    "self_device_time_total": 0,
    "input_shapes": None,
    "overload_name": None,
    "stack": None,
    "scope": None,
    "cpu_memory_usage": 0,
    "device_memory_usage": 0,
    "self_cpu_memory_usage": 0,
    "self_device_memory_usage": 0,
    "device_type": DeviceType.CPU,
    "is_legacy": False,
    "flops": 0,
    "is_user_annotation": False,
    "cpu_children": None,
    "cpu_parent": None,
}


def test_an_average_of_nothing() -> None:
    made = FunctionEventAvg()
    assert {name: getattr(made, name) for name in AVERAGE} == AVERAGE
    assert {name.removeprefix("_") for name in vars(made)} == set(AVERAGE)
    for name, value in AVERAGE.items():
        if isinstance(value, (bool, type(None))):
            assert getattr(made, name) is value, name


def test_an_average_describes_its_first_event_and_sums_all() -> None:
    more: dict[str, Any] = {
        "node_id": 3, "is_async": True, "is_remote": True, "use_device": "xpu", "is_legacy": True,
        "overload_name": "out", "input_shapes": [[1]], "stack": ["f"], "scope": 7,
        "device_type": DeviceType.XPU, "is_user_annotation": True,
    }  # fmt: skip
    average = FunctionEventAvg().add(event("op", 0, 10, cpu_memory_usage=4, **more))
    average += event("op", 20, 25, cpu_memory_usage=-1)
    assert average.key == "op" and average.count == 2
    assert {name: getattr(average, name) for name in more} == more
    assert average.cpu_memory_usage == 3
