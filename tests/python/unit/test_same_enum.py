# SPDX-License-Identifier: Apache-2.0
"""SameEnum: members equal torch's members of the same enum and name, and nothing else."""

from __future__ import annotations

import operator
from typing import Any

import pytest

from fastprof import errors
from fastprof.base.device_type import DeviceType, as_device_type


def theirs(name: str, *, kind: str = "DeviceType", module: str = "torch._C._autograd") -> Any:
    """Return a member of an enum as torch's C++ part makes it."""
    return type(kind, (), {"__module__": module, "name": name})()


@pytest.mark.parametrize(
    ("other", "equal"),
    [
        (theirs("CUDA"), True),
        (theirs("CPU"), False),
        (theirs("CUDA", kind="ProfilerActivity"), False),
        (theirs("CUDA", module="torchvision.ops"), False),
        (theirs("CUDA", module="mine.torch"), False),
        (type("DeviceType", (), {"__module__": "torch"})(), False),  # without a name
        (DeviceType.CUDA, True),
        (DeviceType.CPU, False),
        ("CUDA", False),
    ],
)
def test_what_a_member_equals(other: Any, equal: bool) -> None:
    assert operator.eq(DeviceType.CUDA, other) is equal
    assert operator.ne(DeviceType.CUDA, other) is not equal


def test_hashes_are_those_of_the_numbers() -> None:
    assert hash(DeviceType.CUDA) == hash(int(DeviceType.CUDA))
    assert len({DeviceType.CUDA, DeviceType.CUDA, DeviceType.CPU}) == 2


@pytest.mark.parametrize("value", [99, -1, "toaster", theirs("CUDA")])
def test_an_unknown_device_type_is_an_error_that_lists_the_known_ones(value: Any) -> None:
    if not isinstance(value, (int, str)):
        value.value = 77
    with pytest.raises(errors.ValueError, match=r"unknown device type .*CPU \(0\), CUDA \(1\)"):
        as_device_type(value)
