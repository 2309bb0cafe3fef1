# SPDX-License-Identifier: Apache-2.0
"""profile(): record a stretch of a program and look at it. Uses the native recorder, never torch."""

from fastprof._core import record_function
from fastprof.adapters.torch.tracers import install, register_profile
from fastprof.profiler.handlers import tensorboard_trace_handler
from fastprof.profiler.profiling import profile

__all__ = ["_KinetoProfile", "profile", "tensorboard_trace_handler"]

install(record_function)
register_profile(profile)

# PyTorch's base of profile, which its integrations name in annotations and subclass checks.
_KinetoProfile = profile
