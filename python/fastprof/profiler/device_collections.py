# SPDX-License-Identifier: Apache-2.0
"""DeviceCollections: collect the activities of devices during one recording, for its native session."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Protocol

from fastprof import _core
from fastprof.base import errors
from fastprof.base.observer import Observer
from fastprof.record.gpus import gpu_vendor

if TYPE_CHECKING:
    from fastprof.record.devices import Device, PythonDevice

__all__ = ["ActivityReceiver", "DeviceCollections"]


class ActivityReceiver(Protocol):
    """Destination of activities: a running session, or the activity file of a process that may be killed."""

    def add_activities(self, collection: _core.DeviceCollection) -> None:
        """Take over the activities of a collection that has ended, or those collected so far."""

    def add_sink(self, sink: _core.DeviceSink) -> None:
        """Take over the activities of a finished sink."""


class DeviceCollections(Observer):
    """One collection for each device backend of a recording. Use from one thread at a time."""

    def __init__(
        self, types: Mapping[str, tuple[str, ...]], report_missing: Callable[[str, str], None]
    ) -> None:
        """types: backend -> activity types in traces ("kernel"). report_missing: called with (backend, reason)."""
        self._types = types
        self._report_missing = report_missing
        self._open: dict[str, _core.DeviceCollection | PythonCollection] = {}
        self._warm: _core.DeviceCollection | None = None

    def warm_up(self) -> None:
        """Have CUDA's tool instrument launches already, which makes the first of them slow. Discards what it records.

        prepare() continues from there, and reports a refusal.
        """
        if "CUDA" not in self._types or self._warm is not None:
            return
        vendor = gpu_vendor()
        vendor.register()
        with contextlib.suppress(errors.UnavailableError):
            self._warm = vendor.collect(self._types["CUDA"])

    def _cool_down(self) -> None:
        warm, self._warm = self._warm, None
        if warm is not None:
            warm.abandon()

    def prepare(self) -> None:
        """Begin to collect, before the session starts, so that the calls that are collected lie inside."""
        for name, types in self._types.items():
            device = _python_device(name)
            try:
                if device is not None:
                    self._open[name] = PythonCollection(device, types)
                elif name == "CUDA":
                    self._open[name] = gpu_vendor().collect(types)
                else:
                    self._open[name] = _core.DeviceCollection(name, list(types))
            except errors.UnavailableError as error:
                self._report_missing(name, self._time_by_events(name, types, str(error)))
            except (
                errors.ValueError
            ):  # in a followed process: the profile's plug-in is not registered
                self._report_missing(
                    name,
                    "its plug-in is not registered in this process: use an entry point or"
                    " FASTPROF_DEVICE_PLUGINS",
                )

        self._cool_down()  # the collection of the recording keeps the tool active

    def _time_by_events(self, name: str, types: tuple[str, ...], problem: str) -> str:
        """Time ranges by events of CUDA or HIP if kernels cannot be recorded; return the reason to report."""
        if name != "CUDA":
            return problem
        events = gpu_vendor().events
        try:
            self._open[events] = _core.DeviceCollection(events, list(types))
        except errors.UnavailableError:
            return problem
        return (
            f"{problem}. Ranges are timed by {events} instead; kernels and copies are not recorded"
        )

    def hand_over(self, receiver: ActivityReceiver) -> None:
        """Pass the activities completed since the last call to the receiver. Does not wait.

        Plug-ins and Python devices report all their activities at the end.
        """
        for name, collection in tuple(self._open.items()):
            if isinstance(collection, PythonCollection):
                continue
            if problems := collection.collect_so_far():
                self._report_missing(name, "; ".join(problems))
            receiver.add_activities(collection)

    def end(self, receiver: ActivityReceiver) -> None:
        """Wait for the devices' work and pass the activities to the receiver. A receiving session must still run.

        No effect when called again.
        """
        if not self._open:
            return
        _synchronize_torch()
        while self._open:
            name, collection = next(iter(self._open.items()))
            if problems := collection.end():
                self._report_missing(name, "; ".join(problems))
            if isinstance(collection, PythonCollection):
                receiver.add_sink(collection.sink)
            else:
                receiver.add_activities(collection)
            del self._open[name]

    @property
    def are_open(self) -> bool:
        """Whether anything is being collected."""
        return bool(self._open)

    def are_full(self) -> bool:
        """Return whether a collection is losing activities because its memory is full."""
        return any(collection.is_full() for collection in self._open.values())

    def stop(self) -> None:
        """End and discard the activities that end() has not passed on."""
        self._cool_down()
        while self._open:
            _, collection = self._open.popitem()
            collection.abandon()


class PythonCollection:
    """The collection of a Python device, from construction to end(). A fault of the device does not end the recording.

    Exceptions of the device become problems in the result of end(). A KeyboardInterrupt propagates and ends the
    collection.
    """

    def __init__(self, device: Device, types: tuple[str, ...]) -> None:
        """Raises errors.UnavailableError if the device cannot begin."""
        assert device.python is not None, "a device from a shared library has a native collection"
        self._device: PythonDevice = device.python
        self._read_clock: Callable[[], int] = getattr(device.python, "clock", time.monotonic_ns)
        self._open = False
        self._unreported: list[str] = []  # problems of an end() that was interrupted
        self.sink = _core.DeviceSink(device.name, device.device_type, list(types))
        try:
            self._hz = float(getattr(device.python, "clock_hz", 1e9))
            if not self._hz > 0:
                raise ValueError(f"clock_hz must be greater than 0, not {self._hz}")
            self._begin = _core.device_clock(time.monotonic_ns)
            self._device_begin = _core.device_clock(self._read_clock)
            self._collection = self._device.begin(types)
        except Exception as error:
            raise errors.UnavailableError(
                f"work on {device.name} cannot be collected: its plug-in raised {_text(error)}"
            ) from error
        self._open = True

    def end(self) -> list[str]:
        """Wait for the device, end the collection and return its problems. No effect when called again."""
        if not self._open:
            problems, self._unreported = self._unreported, []
            return problems
        self._open = False
        self._unreported = ["the end of its collection was interrupted, so its work is missing"]
        try:
            self._device.end(self._collection, self.sink)
        except Exception as error:
            self.sink.problem(
                "the end of its collection failed, so work may be missing: its plug-in raised "
                + _text(error)
            )
        device_end = self._device_begin
        try:
            device_end = _core.device_clock(self._read_clock)
        except Exception as error:
            self.sink.problem(f"its clock could not be read: its plug-in raised {_text(error)}")
        end = _core.device_clock(time.monotonic_ns)
        self._unreported = []
        return self.sink.finish(self._begin, end, self._device_begin, device_end, self._hz)

    def is_full(self) -> bool:
        """Return False: a Python device buffers its activities itself until the end."""
        return False

    def abandon(self) -> None:
        """End and discard the activities. No effect after end()."""
        if not self._open:
            return
        self._open = False
        try:
            self._device.abandon(self._collection)
        except Exception:  # the activities are discarded anyway
            return

    def __del__(self) -> None:
        # For a recording that is garbage-collected while it runs.
        self.abandon()


def _python_device(name: str) -> Device | None:
    """Return the Python device of this name; None for a native backend. Registers CUDA and installed plug-ins."""
    if name == "CUDA":
        gpu_vendor().register()  # nothing else registers them in a followed process
        return None
    from fastprof.record.devices import find

    device = find(name)
    return None if device is None or device.python is None else device


def _text(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"


def _synchronize_torch() -> None:
    """Wait for all CUDA devices that torch uses; the backend waits for the current one alone."""
    torch = sys.modules.get("torch")
    cuda = getattr(torch, "cuda", None)
    if cuda is None or not cuda.is_initialized():
        return
    for device in range(cuda.device_count()):
        cuda.synchronize(device)
