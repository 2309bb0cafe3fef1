# SPDX-License-Identifier: Apache-2.0
"""KinetoStepTracker: one step number of the process from several who count steps."""

from __future__ import annotations

import threading
import warnings

__all__ = ["PROFILER_STEP", "KinetoStepTracker"]

# The requester under which a profile with a schedule counts its steps.
PROFILER_STEP = "ProfilerStep"


class KinetoStepTracker:
    """The step of the process is the highest that any requester has reached, and never falls.

    Several may count the same steps (a profile, each optimizer): none of them counts twice. A
    requester that comes later begins at the current step. Any thread.
    """

    _lock = threading.Lock()
    _steps: dict[str, int] = {}  # noqa: RUF012 - one for the process
    _current = 0

    @classmethod
    def init_step_count(cls, requester: str) -> None:
        """`requester` counts from the current step on."""
        with cls._lock:
            cls._steps[requester] = cls._current

    @classmethod
    def erase_step_count(cls, requester: str) -> bool:
        """Forget a requester; whether it was known."""
        with cls._lock:
            return cls._steps.pop(requester, None) is not None

    @classmethod
    def increment_step(cls, requester: str) -> int:
        """`requester` has made a step; the current step then. Warns of a leap of more than one."""
        with cls._lock:
            cls._steps[requester] = cls._steps.get(requester, cls._current) + 1
            leap = max(cls._steps.values()) - cls._current
            cls._current += max(leap, 0)
            current = cls._current
        if leap > 1:
            warnings.warn(f"the step count has grown by {leap} at once, to {current}", stacklevel=2)
        return current

    @classmethod
    def current_step(cls) -> int:
        """The step of the process."""
        return cls._current
