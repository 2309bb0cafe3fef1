# SPDX-License-Identifier: Apache-2.0
"""profile(): record a stretch of a program and look at it. Uses the native recorder, never torch.

With the schedule of its steps, its step tracker and its options. What is named here is imported when it
is first used: the schedule, the tracker and the configuration need no native part.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fastprof.profiler.handlers import tensorboard_trace_handler
    from fastprof.profiler.profiling import _KinetoProfile, profile

__all__ = ["_KinetoProfile", "profile", "tensorboard_trace_handler"]

_LAZY = {
    "_KinetoProfile": "fastprof.profiler.profiling",
    "profile": "fastprof.profiler.profiling",
    "tensorboard_trace_handler": "fastprof.profiler.handlers",
}


def __getattr__(name: str) -> Any:
    module = _LAZY.get(name)
    if module is None:
        raise AttributeError(f"module 'fastprof.profiler' has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(module), name)
    return value
