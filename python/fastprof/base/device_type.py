# SPDX-License-Identifier: Apache-2.0
"""DeviceType: the kinds of device a row can belong to, with PyTorch's values."""

from __future__ import annotations

import enum
from typing import Any

from fastprof.base import errors
from fastprof.base.same_enum import SameEnum

__all__ = ["DEVICE_TIME_TYPES", "DeviceType", "as_device_type", "device_type_name", "is_device"]


class DeviceType(SameEnum, enum.IntEnum):
    """Kinds of device. Values are those of c10::DeviceType and are stored in traces."""

    CPU = 0
    CUDA = 1
    MKLDNN = 2
    OPENGL = 3
    OPENCL = 4
    IDEEP = 5
    HIP = 6
    FPGA = 7
    MAIA = 8
    XLA = 9
    Vulkan = 10
    Metal = 11
    XPU = 12
    MPS = 13
    Meta = 14
    HPU = 15
    VE = 16
    Lazy = 17
    IPU = 18
    MTIA = 19
    PrivateUse1 = 20

    def __str__(self) -> str:
        return f"DeviceType.{self.name}"


# Device activities: a row of these types has its duration as device time, not as CPU time.
DEVICE_TIME_TYPES = frozenset(
    {
        DeviceType.CUDA,
        DeviceType.HIP,
        DeviceType.PrivateUse1,
        DeviceType.MTIA,
        DeviceType.HPU,
        DeviceType.XPU,
        DeviceType.MPS,
        DeviceType.Metal,
    }
)


def device_type_name(number: int) -> str:
    """Return the lower-case name of a device type, such as "cuda"; "device99" for an unknown number."""
    try:
        return DeviceType(number).name.lower()
    except ValueError:
        return f"device{number}"


def as_device_type(value: Any) -> DeviceType:
    """Convert a DeviceType, an int, a name (any case) or torch's own enum value to a DeviceType.

    Raises errors.ValueError for an unknown number or name. Any thread.
    """
    if isinstance(value, DeviceType):
        return value
    if isinstance(value, str):
        for member in DeviceType:
            if member.name.lower() == value.lower():
                return member
        raise _unknown(value)
    number = int(getattr(value, "value", value))  # torch.autograd.DeviceType has .value
    try:
        return DeviceType(number)
    except ValueError:
        raise _unknown(value) from None


def _unknown(value: Any) -> errors.ValueError:
    names = ", ".join(f"{member.name} ({member.value})" for member in DeviceType)
    return errors.ValueError(f"unknown device type {value!r}. Use one of {names}.")


def is_device(name: str, device: str | None) -> bool:
    """Return whether a device's name ("cuda:0") is `device`, or of that type ("cuda"). None means any device.

    "python:object" includes "python:object (sampled)".
    """
    return device is None or device in (
        name,
        name.partition(":")[0],
        name.removesuffix(" (sampled)"),
    )
