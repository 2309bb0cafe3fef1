# SPDX-License-Identifier: Apache-2.0
"""DeviceCollections: what devices do during one recording, for its native session."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping

from fastprof import _core
from fastprof.base import errors
from fastprof.record.cuda import EVENTS

__all__ = ["DeviceCollections"]


class DeviceCollections:
    """One collection for each kind of device that a recording wants. Use from one thread at a time."""

    def __init__(
        self, types: Mapping[str, tuple[str, ...]], tell: Callable[[str, str], None]
    ) -> None:
        """types: backend -> types of traces. tell: is called with (backend, what is missing and why)."""
        self._types = types
        self._tell = tell
        self._open: dict[str, _core.DeviceCollection] = {}

    def begin(self) -> None:
        """Begin to collect; before the session starts, so that it contains all calls that are seen."""
        for name, types in self._types.items():
            try:
                self._open[name] = _core.DeviceCollection(name, list(types))
            except errors.UnavailableError as error:
                self._tell(name, self._fall_back(name, types, str(error)))

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

    def end(self, session: _core.Session) -> None:
        """Wait for the devices' work and hand it to the session, which must still run.

        No effect when called again.
        """
        if not self._open:
            return
        _synchronize_torch()
        while self._open:
            name, collection = next(iter(self._open.items()))
            if problems := collection.end():
                self._tell(name, "; ".join(problems))
            session.add_activities(collection)
            del self._open[name]

    def are_full(self) -> bool:
        """Return whether a collection loses activities because the memory for them is full."""
        return any(collection.is_full() for collection in self._open.values())

    def abandon(self) -> None:
        """End without a result. No effect when called again."""
        while self._open:
            _, collection = self._open.popitem()
            collection.abandon()


def _synchronize_torch() -> None:
    """Wait for all CUDA devices that torch uses; the backend waits for the current one alone."""
    torch = sys.modules.get("torch")
    cuda = getattr(torch, "cuda", None)
    if cuda is None or not cuda.is_initialized():
        return
    for device in range(cuda.device_count()):
        cuda.synchronize(device)
