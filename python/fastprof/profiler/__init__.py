# SPDX-License-Identifier: Apache-2.0
"""The profiler: profile(), its schedule, step tracker, options and handlers. Never imports torch.

Names are imported on first use (PEP 562). The submodules step_schedule, step_tracker and
experimental_config work without the native module.
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
