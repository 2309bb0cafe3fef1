# SPDX-License-Identifier: Apache-2.0
"""KinetoStepTracker: the process's step number, combined from several step counters."""

from __future__ import annotations

import os
import sys
import threading
import warnings
from typing import Any

__all__ = ["PROFILER_STEP", "KinetoStepTracker"]

# The requester under which a profile counts its steps; PyTorch's profiler uses the same.
PROFILER_STEP = "ProfilerStep"


class _Own:
    """The counts of a process without torch; the member names are torch's."""

    _step_dict: dict[str, int] = {}  # noqa: RUF012 - one for the process
    _current_step = 0


class KinetoStepTracker:
    """The process's step number: the highest step of any requester; never decreases.

    Several requesters may count the same steps (a profile, each optimizer) without counting them
    twice. A new requester starts at the current step; a profile registers when it is constructed.
    Callable on any thread.

    Once torch is loaded, the counts live in torch.autograd.profiler.KinetoStepTracker, so torch's
    profiler and its optimizer hook count the same steps. Earlier counts are carried over.
    """

    _lock = threading.RLock()

    @classmethod
    def init_step_count(cls, requester: str) -> None:
        """Register `requester` at the current step."""
        counts = _counts()
        counts._step_dict[requester] = counts._current_step

    @classmethod
    def erase_step_count(cls, requester: str) -> bool:
        """Unregister a requester; return whether it was registered."""
        return _counts()._step_dict.pop(requester, None) is not None

    @classmethod
    def increment_step(cls, requester: str) -> int:
        """Count a step of `requester`; return the process's step. Warns if it grows by more than one.

        With KINETO_USE_DAEMON in the environment, torch counts, because it also notifies Kineto.
        """
        with cls._lock:
            counts = _counts()
            if counts is not _Own and os.environ.get("KINETO_USE_DAEMON"):
                return int(counts.increment_step(requester))
            steps, before = counts._step_dict, int(counts._current_step)
            step = steps.get(requester, before) + 1
            current: int = max(before, step)
            leap = current - before
            # In this order: an interrupt in between loses a count but makes the next step no leap.
            counts._current_step = current
            steps[requester] = step
        if leap > 1:
            warnings.warn(
                f"the process's step count grew by {leap}, to {current}, in one step of {requester!r}",
                stacklevel=2,
            )
        return current

    @classmethod
    def current_step(cls) -> int:
        """Return the process's step number."""
        return int(_counts()._current_step)


def _counts() -> Any:
    """Return torch's tracker if it is loaded, else ours; carry our counts over to torch's."""
    profiler: Any = sys.modules.get("torch.autograd.profiler")
    theirs: Any = getattr(profiler, "KinetoStepTracker", None)
    if not isinstance(getattr(theirs, "_step_dict", None), dict) or not isinstance(
        getattr(theirs, "_current_step", None), int
    ):
        return _Own
    if _Own._step_dict or _Own._current_step:  # torch was loaded in the meantime
        for requester, step in list(_Own._step_dict.items()):
            theirs._step_dict[requester] = max(step, theirs._step_dict.get(requester, 0))
        theirs._current_step = max(theirs._current_step, _Own._current_step)
        _Own._step_dict.clear()
        _Own._current_step = 0
    return theirs
