# SPDX-License-Identifier: Apache-2.0
"""DeviceCollections: what devices do during one recording, for its native session."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Protocol

from fastprof import _core
from fastprof.base import errors
from fastprof.record.cuda import EVENTS, register_cuda

if TYPE_CHECKING:
    from fastprof.record.devices import Device, PythonDevice

__all__ = ["ActivityReceiver", "DeviceCollections"]


class ActivityReceiver(Protocol):
    """What takes over what devices did: a running session, or a file for a process that may be killed."""

    def add_activities(self, collection: _core.DeviceCollection) -> None:
        """Take what an ended collection has, or what it has so far."""

    def add_sink(self, sink: _core.DeviceSink) -> None:
        """Take what a finished sink has."""


class DeviceCollections:
    """One collection for each kind of device that a recording wants. Use from one thread at a time."""

    def __init__(
        self, types: Mapping[str, tuple[str, ...]], report_missing: Callable[[str, str], None]
    ) -> None:
        """types: backend -> types of traces. report_missing: called with (backend, what is missing and why)."""
        self._types = types
        self._tell = report_missing
        self._open: dict[str, _core.DeviceCollection | PythonCollection] = {}

    def begin(self) -> None:
        """Begin to collect; before the session starts, so that it contains all calls that are seen."""
        for name, types in self._types.items():
            device = _python_device(name)
            try:
                self._open[name] = (
                    _core.DeviceCollection(name, list(types))
                    if device is None
                    else PythonCollection(device, types)
                )
            except errors.UnavailableError as error:
                self._tell(name, self._fall_back(name, types, str(error)))
            except errors.ValueError:  # a followed process does not have what its profile has
                self._tell(
                    name,
                    "its plug-in is not registered in this process: use an entry point or"
                    " FASTPROF_DEVICE_PLUGINS",
                )

    def _fall_back(self, name: str, types: tuple[str, ...], problem: str) -> str:
        """Time ranges by CUDA events where CUPTI cannot be used; return what to tell of it."""
        if name != "CUDA":
            return problem
        try:
            self._open[EVENTS] = _core.DeviceCollection(EVENTS, list(types))
        except errors.UnavailableError:
            return problem
        return (
            f"{problem}. Ranges are timed by CUDA events instead: there are no kernels and copies"
        )

    def hand_over(self, receiver: ActivityReceiver) -> None:
        """Give the receiver what has been completed since the begin or the last call. Waits for nothing.

        Plug-ins and devices of Python give all of it at the end.
        """
        for name, collection in tuple(self._open.items()):
            if isinstance(collection, PythonCollection):
                continue
            if problems := collection.collect_so_far():
                self._tell(name, "; ".join(problems))
            receiver.add_activities(collection)

    def end(self, receiver: ActivityReceiver) -> None:
        """Wait for the devices' work and give it to the receiver: a session must still run.

        No effect when called again.
        """
        if not self._open:
            return
        _synchronize_torch()
        while self._open:
            name, collection = next(iter(self._open.items()))
            if problems := collection.end():
                self._tell(name, "; ".join(problems))
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
        """Return whether a collection loses activities because the memory for them is full."""
        return any(collection.is_full() for collection in self._open.values())

    def abandon(self) -> None:
        """End without a result. No effect when called again."""
        while self._open:
            _, collection = self._open.popitem()
            collection.abandon()


class PythonCollection:
    """What a device of Python collects from here to end(). Whatever it does, the recording goes on.

    Errors of the device become problems; a KeyboardInterrupt passes, and ends the collection.
    """

    def __init__(self, device: Device, types: tuple[str, ...]) -> None:
        """Raises errors.UnavailableError if the device cannot begin."""
        assert device.python is not None, "a device of a library has a native collection"
        self._device: PythonDevice = device.python
        self._read_clock: Callable[[], int] = getattr(device.python, "clock", time.monotonic_ns)
        self._open = False
        self._late: list[str] = []  # of an end() that did not return
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
        """Wait for the device, end, and return what went wrong. No effect when called again."""
        if not self._open:
            late, self._late = self._late, []
            return late
        self._open = False
        self._late = ["the end of its collection was interrupted, so that its work is missing"]
        try:
            self._device.end(self._collection, self.sink)
        except Exception as error:
            self.sink.problem(
                "the end of its collection failed, so that work may be missing: its plug-in raised "
                + _text(error)
            )
        device_end = self._device_begin
        try:
            device_end = _core.device_clock(self._read_clock)
        except Exception as error:
            self.sink.problem(f"its clock could not be read: its plug-in raised {_text(error)}")
        end = _core.device_clock(time.monotonic_ns)
        self._late = []
        return self.sink.finish(self._begin, end, self._device_begin, device_end, self._hz)

    def is_full(self) -> bool:
        """Return False: what a device of Python keeps is its own matter until the end."""
        return False

    def abandon(self) -> None:
        """End without reading what was collected. No effect when ended."""
        if not self._open:
            return
        self._open = False
        try:
            self._device.abandon(self._collection)
        except Exception:  # nobody wants what it has
            return

    def __del__(self) -> None:
        # Of a recording that was dropped while it ran.
        self.abandon()


def _python_device(name: str) -> Device | None:
    """Return the device of this name if it is one of Python. Registers what is known of installed plug-ins."""
    if name == "CUDA":
        register_cuda()  # in a followed process nobody has asked for it yet
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
