# SPDX-License-Identifier: Apache-2.0
"""The fields of an experimental_config, ours or PyTorch's, and what of them a profile does not do."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from fastprof.profiler.experimental_config import _ExperimentalConfig

__all__ = ["config_fields", "missing_of_config", "says_threads"]

_NAMES = tuple(field.name for field in fields(_ExperimentalConfig))

# Fields that change nothing here, because a profile always does what they ask for, or never does
# what they switch off. performance_events, profile_all_threads, record_python_gc_info and trace_only
# are read by options.py.
_NOT_DONE = {
    "profiler_metrics": "metrics of GPU kernels (profiler_metrics) are not measured",
    "profiler_measure_per_kernel": "metrics of GPU kernels (profiler_measure_per_kernel) are not measured",
    "enable_cuda_sync_events": "CUDA synchronisation events (enable_cuda_sync_events) are not recorded",
    "adjust_profiler_step": "steps are not moved to the Python call around them (adjust_profiler_step)",
    "disable_external_correlation": "disable_external_correlation has no effect: no device is correlated",
    "expose_kineto_event_metadata": (
        "events have no metadata of Kineto (expose_kineto_event_metadata): use the columns of"
        " profile.event_table"
    ),
    "custom_profiler_config": "custom_profiler_config has no effect: it is for other backends of Kineto",
    "adjust_timestamps": "timestamps of Vulkan events (adjust_timestamps) are not adjusted",
}


def config_fields(config: Any) -> dict[str, Any]:
    """The fields that `config` has, by name; of PyTorch's own, by the state that it is pickled by.

    PyTorch's has every field in the order of _ExperimentalConfig, older versions the first of them.
    """
    if config is None:
        return {}
    found = {name: getattr(config, name) for name in _NAMES if hasattr(config, name)}
    if len(found) < len(_NAMES) and type(config).__name__ == "_ExperimentalConfig":
        try:
            state = config.__getstate__()
        except Exception:
            state = ()
        if isinstance(state, tuple):
            found = {**dict(zip(_NAMES, state, strict=False)), **found}
    return found


def missing_of_config(values: dict[str, Any]) -> dict[str, str]:
    """Why fields that were set have no effect here, by name."""
    return {name: reason for name, reason in _NOT_DONE.items() if values.get(name)}


def says_threads(config: Any) -> bool:
    """Whether False for profile_all_threads was given: PyTorch's own has it as the default, too."""
    return isinstance(config, _ExperimentalConfig)
