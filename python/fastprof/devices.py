# SPDX-License-Identifier: Apache-2.0
"""fastprof.devices: register device plug-ins. Public path of record/devices.py."""

from __future__ import annotations

from fastprof.record.devices import (
    NO_INDEX,
    ActivityType,
    ArgumentType,
    Device,
    DeviceSink,
    PythonDevice,
    find,
    refused,
    register,
    registered,
    unregister,
)

__all__ = [
    "NO_INDEX",
    "ActivityType",
    "ArgumentType",
    "Device",
    "DeviceSink",
    "PythonDevice",
    "find",
    "refused",
    "register",
    "registered",
    "unregister",
]
