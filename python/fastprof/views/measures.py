# SPDX-License-Identifier: Apache-2.0
"""Mixin of events and averages: derived times, their text, the cuda_* spellings of fields."""

from __future__ import annotations

from typing import Any

from fastprof.base import errors
from fastprof.base.formatting import format_time

__all__ = ["EventViewError", "FormattedTimesMixin", "device_metric_name"]


class EventViewError(errors.ValueError, AssertionError):
    """Events were linked or added inconsistently.

    Also an AssertionError, because that is what PyTorch raises in the same places.
    """


def device_metric_name(name: str) -> str:
    """Return the device_ spelling of a cuda_, xpu_ or privateuse1_ field."""
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
    """Derived values for classes with `*_time_total`, memory fields and `count`. Times in us.

    Any thread may read them.
    """

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
        """Average CPU time per call, us; 0.0 if count is 0."""
        return 0.0 if self.count == 0 else float(self.cpu_time_total / self.count)

    @property
    def device_time(self: Any) -> float:
        """Average device time per call, us; 0.0 if count is 0."""
        return 0.0 if self.count == 0 else float(self.device_time_total / self.count)

    @property
    def flops_per_s(self: Any) -> float:
        """FLOPs per second of device time if there is any, else of CPU time; 0.0 if unknown."""
        time_us = self.device_time_total or self.cpu_time_total
        return 0.0 if not self.flops or time_us <= 0 else float(self.flops) / (time_us * 1e-6)
