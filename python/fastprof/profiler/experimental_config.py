# SPDX-License-Identifier: Apache-2.0
"""_ExperimentalConfig: PyTorch's further options of a profile; its own object is accepted as well."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

__all__ = ["_ExperimentalConfig"]


@dataclass
class _ExperimentalConfig:
    """Same fields, in the same order, as in PyTorch.

    performance_events: perf counters around each range, like `profile(counters=)`; if they cannot
    be read, `profile.missing` says why.
    profile_all_threads: False records the starting thread only, like `profile(all_threads=False)`;
    None (the default) or True records every thread.
    record_python_gc_info: each garbage collection of Python is a range "Python GC".
    trace_only: only traces can be written; asking for events raises `errors.StateError`.
    verbose, capture_overload_names: always done.
    The others are not done: one that is set is named in `profile.missing`, with a warning the first
    time.

    PyTorch's own object does not say whether `profile_all_threads=False` was given: it is taken for
    the default, and every thread is recorded.
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
