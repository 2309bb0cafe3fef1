# SPDX-License-Identifier: Apache-2.0
"""Refuse a second execution trace observer: libtorch supports one, and crashes the process with two."""

from __future__ import annotations

import gc
import sys
from typing import Any

from fastprof.base import errors

__all__ = ["check_sole_observer", "is_registered", "torchs_observer_class"]


def torchs_observer_class() -> Any:
    """Return torch.profiler.ExecutionTraceObserver; None if torch is not imported, which this does not do."""
    profiler: Any = getattr(sys.modules.get("torch"), "profiler", None)
    return getattr(profiler, "ExecutionTraceObserver", None)


def is_registered(observer: Any) -> bool:
    """Return whether an observer of torch's class is registered."""
    return bool(getattr(observer, "_registered", False))


def check_sole_observer(mine: Any = None) -> None:
    """Raise errors.StateError if an observer of torch's class other than `mine` is registered.

    mine: torch's observer. All objects of the process are searched (a tenth of a second in a large one), because
    libtorch does not say whether it has an observer. No effect without torch. Any thread.
    """
    theirs = torchs_observer_class()
    if not isinstance(theirs, type):
        return
    # type(), since isinstance() would run code of objects that pretend to be of another class.
    for one in gc.get_objects():
        if one is not mine and issubclass(type(one), theirs) and is_registered(one):
            path = one.get_output_file_path()
            raise errors.StateError(
                f"another execution trace observer is registered, which writes {path!r}. libtorch supports "
                "one and crashes with two: call its unregister_callback() first."
            )
