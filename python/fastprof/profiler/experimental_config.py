# SPDX-License-Identifier: Apache-2.0
"""_ExperimentalConfig: PyTorch's further options of a profile. PyTorch's own object is accepted too."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

__all__ = ["_ExperimentalConfig"]


@dataclass
class _ExperimentalConfig:
    """Further options of profile(experimental_config=...); fields and order are PyTorch's.

    performance_events: perf counters read around each range, like `profile(counters=)`; if they
    cannot be read, `profile.missing` contains the reason.
    profile_all_threads: False records the starting thread only, like `profile(all_threads=False)`;
    None (the default) or True records every thread.
    record_python_gc_info: record each Python garbage collection as a range "Python GC".
    trace_only: only traces can be written; `profile.events()` raises `errors.StateError`.
    enable_cuda_sync_events: with ProfilerActivity.CUDA, record waits of streams, events and contexts.
    verbose: in Chrome traces, rows of Python functions have "Python thread" and "Call stack".
    capture_overload_names: always on.
    The other fields have no effect: one that is set is listed in `profile.missing` and reported by
    a warning the first time.

    In PyTorch's own object, False is also the default of profile_all_threads and therefore ignored:
    every thread is recorded.
    """

    profiler_metrics: Sequence[str] = ()
    profiler_measure_per_kernel: bool = False
    verbose: bool = False
    performance_events: Sequence[str] = ()
    enable_cuda_sync_events: bool = False
    adjust_profiler_step: bool = False
    disable_external_correlation: bool = False
    profile_all_threads: bool | None = None
    capture_overload_names: bool = False
    record_python_gc_info: bool = False
    expose_kineto_event_metadata: bool = False
    custom_profiler_config: str = ""
    adjust_timestamps: bool = False
    trace_only: bool = False
