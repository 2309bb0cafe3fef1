# SPDX-License-Identifier: Apache-2.0
"""What a device of Python offers to a profile, and the numbers that it reports with.

The same as the C interface of csrc/include/fastprof/device_plugin.h, whose numbers these are.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from typing import Any, Protocol

__all__ = ["NO_INDEX", "ActivityType", "ArgumentType", "DeviceSink", "PythonDevice"]

# Returned by functions of a sink that refuse what they are given.
NO_INDEX = 2**32 - 1


class ActivityType(enum.IntEnum):
    """Types of activities. Calls and overhead take place on threads, all others on queues."""

    KERNEL = 0
    COPY = 1
    FILL = 2
    WAIT = 3
    CALL = 4
    DRIVER_CALL = 5
    OVERHEAD = 6


class ArgumentType(enum.IntEnum):
    """Types of arguments, each one word of 64 bits."""

    INT64 = 0
    UINT64 = 1
    FLOAT64 = 2
    BOOL = 3


class DeviceSink(Protocol):
    """Receives the activities of one collection. What is invalid is left out, counted and reported."""

    def queue(self, device: int, number: int, name: str = "") -> int:
        """Return the index of a queue of a device; both numbers >= 0."""

    def thread(self, thread_id: int) -> int:
        """Return the index of a thread of this process, by threading.get_native_id()."""

    def kind(self, name: str, type: int, arguments: list[tuple[str, int]] = ...) -> int:
        """Return the index of what activities have in common. type: an ActivityType. arguments: (name,
        ArgumentType)."""

    def text(self, json: str) -> int:
        """Return the index of further arguments, a JSON object."""

    def add(
        self,
        kind: Any,
        place: Any,
        begin: Any,
        end: Any,
        correlation: Any = 0,
        text: Any = NO_INDEX,
        arguments: Any = None,
    ) -> int:
        """Add activities, one for each value of begin and end: stamps of the device's clock, of
        calls time.monotonic_ns().

        kind, place, text: indices, one for all or one each. correlation: joins a call and the work that
        it started, > 0, 0 for none. arguments: an array of uint64 with a row for each activity; a double
        is given by its bits. Returns how many were accepted.
        """

    def dropped(self, count: int) -> None:
        """Count activities that the device had no room for."""

    def problem(self, text: str) -> None:
        """Report what is missing in the profile, and why."""


class PythonDevice(Protocol):
    """A device that is written in Python: an object with these methods, for `fastprof.devices.register`.

    Optional attributes: `activity`, the ProfilerActivity (default PrivateUse1); `problem()`, which
    returns why nothing can be collected now, None if it can; `clock()`, the device's own steady clock
    in ticks of 1/`clock_hz` s (default 1e9), with which work is stamped. Calls are stamped with
    time.monotonic_ns(), and so is work without clock(). All are called on threads that hold the GIL, one at a time.
    """

    name: str

    def begin(self, types: Sequence[str]) -> Any:
        """Begin a collection of the types (of traces: "kernel", ...); return what end() is given."""

    def end(self, collection: Any, sink: DeviceSink) -> None:
        """Wait for the device's work and report what the collection has. Each collection ends once."""

    def abandon(self, collection: Any) -> None:
        """End a collection whose activities nobody wants."""
