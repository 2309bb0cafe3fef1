# SPDX-License-Identifier: Apache-2.0
"""The interface of device plug-ins written in Python: PythonDevice, DeviceSink and their enums.

It mirrors the C interface in csrc/include/fastprof/device_plugin.h; the enum values are equal.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from typing import Any, Protocol

__all__ = ["NO_INDEX", "ActivityType", "ArgumentType", "DeviceSink", "PythonDevice"]

# Index returned by a sink for an invalid argument; as an argument: none.
NO_INDEX = 2**32 - 1


class ActivityType(enum.IntEnum):
    """Types of activities. Calls and overhead belong to threads, all others to queues."""

    KERNEL = 0
    COPY = 1
    FILL = 2
    WAIT = 3
    CALL = 4
    DRIVER_CALL = 5
    OVERHEAD = 6


class ArgumentType(enum.IntEnum):
    """Types of arguments; each argument is a word of 64 bits."""

    INT64 = 0
    UINT64 = 1
    FLOAT64 = 2
    BOOL = 3


class DeviceSink(Protocol):
    """Receives the activities of one collection. Invalid ones are discarded, counted and reported.

    Use it inside PythonDevice.end(), on one thread at a time. Functions that return an index return NO_INDEX for
    invalid arguments.
    """

    def queue(self, device: int, number: int, name: str = "") -> int:
        """Register a queue and return its index. device: index of the device. number: of the queue; both >= 0."""

    def thread(self, thread_id: int) -> int:
        """Register a thread of this process and return its index. thread_id: its threading.get_native_id()."""

    def kind(self, name: str, type: int, arguments: list[tuple[str, int]] = ...) -> int:
        """Register a kind (what activities have in common) and return its index.

        type: an ActivityType. arguments: (name, ArgumentType) of each typed argument, at most 8.
        """

    def text(self, json: str) -> int:
        """Register a JSON object with further arguments, which activities may share, and return its index."""

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
        """Add activities, one for each pair of values of begin and end; return how many were accepted.

        begin, end: stamps; of calls time.monotonic_ns(), of work the device's clock. kind, place, text: indices,
        one for all activities or one each; place is a queue or a thread. correlation: a number > 0 that a call
        shares with the work that it launched; 0: none. arguments: array of uint64 with one row per activity; a
        double is passed as its bits.
        """

    def dropped(self, count: int) -> None:
        """Count activities that the device lost because its buffers were full."""

    def problem(self, text: str) -> None:
        """Report what is missing in the profile and why; the text appears in profile.missing."""


class PythonDevice(Protocol):
    """A device plug-in written in Python: an object with these methods, for `fastprof.devices.register`.

    Optional attributes: `activity`, the ProfilerActivity (default PrivateUse1); `problem()`, which returns
    why nothing can be collected now, or None; `clock()`, the steady clock that stamps work, in ticks of
    1/`clock_hz` s (default 1e9). Calls are stamped with time.monotonic_ns(), and so is work if there is no
    clock(). The methods are called one at a time, on any thread, with the GIL held.
    """

    name: str

    def begin(self, types: Sequence[str]) -> Any:
        """Begin a collection of activity types, as in traces ("kernel"). Return a value to identify it."""

    def end(self, collection: Any, sink: DeviceSink) -> None:
        """Wait for the device's work and report the collection's activities to the sink. Called once at most."""

    def abandon(self, collection: Any) -> None:
        """End a collection and discard its activities."""
