# SPDX-License-Identifier: Apache-2.0
"""Names of the fields that are summed over events: times in us, and memory in bytes."""

from __future__ import annotations

__all__ = ["MEMORY_FIELDS", "TIME_FIELDS"]

TIME_FIELDS = (
    "cpu_time_total",
    "self_cpu_time_total",
    "device_time_total",
    "self_device_time_total",
)
MEMORY_FIELDS = (
    "cpu_memory_usage",
    "self_cpu_memory_usage",
    "device_memory_usage",
    "self_device_memory_usage",
)
