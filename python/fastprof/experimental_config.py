# SPDX-License-Identifier: Apache-2.0
"""_ExperimentalConfig: PyTorch's further options of a profile; its own object is accepted as well."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

__all__ = ["_ExperimentalConfig"]


@dataclass
class _ExperimentalConfig:
    """Same fields, in the same order, as in PyTorch.

    Of these a profile needs none for what it records on the CPU: it sees all threads, its stacks do
    not depend on `verbose`, and nothing has to be adjusted. `performance_events` cannot be given
    and is told in `profile.missing`. The others speak of devices or of PyTorch's own workings.
    """

    profiler_metrics: Sequence[str] = ()
    profiler_measure_per_kernel: bool = False
    verbose: bool = False
    performance_events: Sequence[str] = ()
    enable_cuda_sync_events: bool = False
    adjust_profiler_step: bool = False
    disable_external_correlation: bool = False
    profile_all_threads: bool = False
    capture_overload_names: bool = False
    record_python_gc_info: bool = False
    expose_kineto_event_metadata: bool = False
    custom_profiler_config: str = ""
    adjust_timestamps: bool = False
    trace_only: bool = False
