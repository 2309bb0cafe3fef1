# SPDX-License-Identifier: Apache-2.0
"""Observer: the interface of everything that records into a session while it runs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

__all__ = ["Observer"]


class Observer:
    """Observes during one recording. Use from one thread at a time.

    A recording calls prepare(), starts its session, calls start(), later finish(), stops the session and calls stop().
    A recording that fails or is abandoned calls finish() and stop() at any point: both must then have no effect if
    there is nothing to end. Each default does nothing.
    """

    missing: ClassVar[str] = (
        ""  # name in profile.missing of the problems that start() and finish() return
    )

    def prepare(self) -> None:
        """Begin what needs no session."""

    def start(self) -> list[str]:
        """Begin, after the session has started. Return sentences that say what is not recorded."""
        return []

    def finish(self) -> list[str]:
        """End what records while the session runs. Return sentences that say what was not recorded."""
        return []

    def stop(self) -> None:
        """End, after the session."""

    @property
    def samples(self) -> Any:
        """The SampledStacks of the recording, after finish(); None: this observer does not sample."""
        return None

    def facts(self) -> Mapping[str, str]:
        """Return metadata for the backing file, after start()."""
        return {}

    def metadata(self) -> Mapping[str, Any]:
        """Return metadata for the result, after stop()."""
        return {}
