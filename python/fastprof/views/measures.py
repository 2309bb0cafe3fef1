# SPDX-License-Identifier: Apache-2.0
"""What events and averages have in common: derived times, their text, the cuda_* spellings."""

from __future__ import annotations

from typing import Any

from fastprof.base import errors
from fastprof.base.formatting import format_time

__all__ = ["EventViewError", "FormattedTimesMixin", "device_metric_name"]


class EventViewError(errors.ValueError, AssertionError):
    """Events were linked or added in a way that makes no sense.

    It is an AssertionError too, because that is what PyTorch raises in the same places.
    """


def device_metric_name(name: str) -> str:
    """cuda_, xpu_ and privateuse1_ spellings of a field -> the device_ one."""
    return name.replace("cuda", "device").replace("xpu", "device").replace("privateuse1", "device")


def _time_text(field: str) -> property:
    def text(self: Any) -> str:
        return format_time(getattr(self, field))

    text.__doc__ = f"{field} as text with its unit."
    return property(text)


def _alias(field: str) -> property:
    def read(self: Any) -> Any:
        return getattr(self, field)

    def write(self: Any, value: Any) -> None:
        setattr(self, field, value)

    read.__doc__ = f"The older spelling of {field}."
    return property(read, write)


class FormattedTimesMixin:
    """Derived values for classes with `*_time_total`, memory fields and `count`. Times in us."""

    cpu_time_str = _time_text("cpu_time")
    device_time_str = _time_text("device_time")
    cpu_time_total_str = _time_text("cpu_time_total")
    device_time_total_str = _time_text("device_time_total")
    self_cpu_time_total_str = _time_text("self_cpu_time_total")
    self_device_time_total_str = _time_text("self_device_time_total")

    cuda_time = _alias("device_time")
    cuda_time_total = _alias("device_time_total")
    self_cuda_time_total = _alias("self_device_time_total")
    cuda_memory_usage = _alias("device_memory_usage")
    self_cuda_memory_usage = _alias("self_device_memory_usage")
    cuda_time_str = _time_text("device_time")
    cuda_time_total_str = _time_text("device_time_total")
    self_cuda_time_total_str = _time_text("self_device_time_total")

    @property
    def cpu_time(self: Any) -> float:
        """Average CPU time of a call, us; 0.0 when count is 0."""
        return 0.0 if self.count == 0 else float(self.cpu_time_total / self.count)

    @property
    def device_time(self: Any) -> float:
        """Average device time of a call, us; 0.0 when count is 0."""
        return 0.0 if self.count == 0 else float(self.device_time_total / self.count)

    @property
    def flops_per_s(self: Any) -> float:
        """FLOPs by the second of device time if there is some, else of CPU time; 0.0 unknown."""
        time_us = self.device_time_total or self.cpu_time_total
        return 0.0 if not self.flops or time_us <= 0 else float(self.flops) / (time_us * 1e-6)
