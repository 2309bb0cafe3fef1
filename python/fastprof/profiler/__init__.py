# SPDX-License-Identifier: Apache-2.0
"""profile(): record a stretch of a program and look at it. Uses the native recorder, never torch."""

from fastprof.profiler.handlers import tensorboard_trace_handler
from fastprof.profiler.profiling import profile

__all__ = ["_KinetoProfile", "profile", "tensorboard_trace_handler"]

# PyTorch's base of profile, which its integrations name in annotations and subclass checks.
_KinetoProfile = profile
