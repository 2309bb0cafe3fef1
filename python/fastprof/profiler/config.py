# SPDX-License-Identifier: Apache-2.0
"""Read an experimental_config (ours or PyTorch's), and find the fields that have no effect."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from fastprof.base import errors
from fastprof.profiler.experimental_config import _ExperimentalConfig

__all__ = ["config_fields", "missing_of_config", "sets_all_threads"]

_NAMES = tuple(field.name for field in fields(_ExperimentalConfig))

# Fields without an effect -> reason, shown if the field is set. options.py reads performance_events,
# profile_all_threads, record_python_gc_info, verbose, expose_kineto_event_metadata, trace_only, and, where CUDA
# is recorded, enable_cuda_sync_events.
_NOT_DONE = {
    "profiler_metrics": "metrics of GPU kernels (profiler_metrics) are not measured",
    "profiler_measure_per_kernel": "metrics of GPU kernels (profiler_measure_per_kernel) are not measured",
    "enable_cuda_sync_events": (
        "CUDA synchronisation events (enable_cuda_sync_events) are not recorded, because CUDA is not"
    ),
    "adjust_profiler_step": "steps are not moved to the Python call around them (adjust_profiler_step)",
    "disable_external_correlation": (
        "disable_external_correlation has no effect: device work is linked without external correlation ids"
    ),
    "custom_profiler_config": "custom_profiler_config has no effect: it is for other backends of Kineto",
    "adjust_timestamps": "timestamps of Vulkan events (adjust_timestamps) are not adjusted",
}


def config_fields(config: Any) -> dict[str, Any]:
    """Return the fields of `config` by name; {} for None.

    PyTorch's own object may hide fields; those are read from its pickle state, a tuple of all fields
    in the order of _ExperimentalConfig (older versions of torch: of the first fields only). Raises errors.ValueError
    for an object that is no such configuration.
    """
    if config is None:
        return {}
    found = {name: getattr(config, name) for name in _NAMES if hasattr(config, name)}
    named = type(config).__name__ == "_ExperimentalConfig"
    if not (found or named):
        raise errors.ValueError(
            f"experimental_config must be a fastprof._ExperimentalConfig or PyTorch's, not {config!r}"
        )
    if len(found) < len(_NAMES) and named:
        try:
            state = config.__getstate__()
        except Exception:
            state = ()
        if isinstance(state, tuple):
            found = {**dict(zip(_NAMES, state, strict=False)), **found}
    return found


def missing_of_config(values: dict[str, Any]) -> dict[str, str]:
    """Return field name -> reason for the fields that are set and have no effect here."""
    return {name: reason for name, reason in _NOT_DONE.items() if values.get(name)}


def sets_all_threads(config: Any) -> bool:
    """Return whether profile_all_threads=False in `config` was set explicitly.

    False is also the default of PyTorch's own object, so there it does not count as set.
    """
    return isinstance(config, _ExperimentalConfig)
