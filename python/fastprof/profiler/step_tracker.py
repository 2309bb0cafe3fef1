# SPDX-License-Identifier: Apache-2.0
"""KinetoStepTracker: one step number of the process from several who count steps."""

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
    """The counts of a process without torch; the names of its members are torch's."""

    _step_dict: dict[str, int] = {}  # noqa: RUF012 - one for the process
    _current_step = 0


class KinetoStepTracker:
    """The step of the process is the highest that any requester has reached, and never falls.

    Several may count the same steps (a profile, each optimizer): none of them counts twice. A
    requester that comes later begins at the current step; a profile comes when it is made. Any thread.

    Once torch is loaded, the counts are those of torch.autograd.profiler.KinetoStepTracker: torch's
    profiler and its hook of optimizers count the same steps. What was counted before is taken over.
    """

    _lock = threading.RLock()

    @classmethod
    def init_step_count(cls, requester: str) -> None:
        """`requester` counts from the current step on."""
        counts = _counts()
        counts._step_dict[requester] = counts._current_step

    @classmethod
    def erase_step_count(cls, requester: str) -> bool:
        """Forget a requester; whether it was known."""
        return _counts()._step_dict.pop(requester, None) is not None

    @classmethod
    def increment_step(cls, requester: str) -> int:
        """`requester` has made a step; the current step then. Warns of a leap of more than one.

        With KINETO_USE_DAEMON in the environment torch counts, which tells Kineto, too.
        """
        with cls._lock:
            counts = _counts()
            if counts is not _Own and os.environ.get("KINETO_USE_DAEMON"):
                return int(counts.increment_step(requester))
            steps, before = counts._step_dict, int(counts._current_step)
            step = steps.get(requester, before) + 1
            current: int = max(before, step)
            leap = current - before
            # In this order: an interrupt in between loses a count and makes no leap of the next.
            counts._current_step = current
            steps[requester] = step
        if leap > 1:
            warnings.warn(f"the step count has grown by {leap} at once, to {current}", stacklevel=2)
        return current

    @classmethod
    def current_step(cls) -> int:
        """The step of the process."""
        return int(_counts()._current_step)


def _counts() -> Any:
    """torch's tracker if it is loaded, else ours."""
    profiler: Any = sys.modules.get("torch.autograd.profiler")
    theirs: Any = getattr(profiler, "KinetoStepTracker", None)
    if not isinstance(getattr(theirs, "_step_dict", None), dict) or not isinstance(
        getattr(theirs, "_current_step", None), int
    ):
        return _Own
    if _Own._step_dict or _Own._current_step:  # torch was loaded since
        for requester, step in list(_Own._step_dict.items()):
            theirs._step_dict[requester] = max(step, theirs._step_dict.get(requester, 0))
        theirs._current_step = max(theirs._current_step, _Own._current_step)
        _Own._step_dict.clear()
        _Own._current_step = 0
    return theirs
