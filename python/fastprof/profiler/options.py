# SPDX-License-Identifier: Apache-2.0
"""The arguments of profile(), checked: what is asked for, and what of it this build cannot give."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from types import FrameType
from typing import Any

from fastprof import _core, errors
from fastprof.activities import (
    ProfilerActivity,
    as_activity,
    category_mask,
    missing_reason,
    parse_activities,
    supported_activities,
)

__all__ = ["OVERFLOW_POLICIES", "Options", "make_options", "tell_missing"]

# OverflowPolicy of csrc/include/fastprof/recorder/state.hpp.
OVERFLOW_POLICIES = {"drop_newest": 0, "overwrite_oldest": 1}

# fastprof.memory_attribution.RULES, without loading NumPy for it.
MEMORY_RULES = ("innermost", "interval")

_CATEGORY_MEMORY = 1 << 2
_warned: set[str] = set()


@dataclass(frozen=True)
class Options:
    """What profile() was asked for. `missing`: what of it is not recorded, with the reason."""

    activities: frozenset[ProfilerActivity]
    categories: int
    use_device: str | None
    record_shapes: bool
    profile_memory: bool
    memory_attribution: str
    with_stack: bool
    with_flops: bool
    with_modules: bool
    acc_events: bool
    all_threads: bool
    max_bytes: int
    overflow: int
    counters: tuple[str, ...] = ()
    missing: dict[str, str] = field(default_factory=dict)


def make_options(
    *,
    activities: Iterable[Any] | None,
    activity_filters: Mapping[Any, Any] | None,
    use_cpu: bool,
    use_cuda: bool | None,
    use_device: str | None,
    use_kineto: bool,
    record_shapes: bool,
    profile_memory: bool,
    memory_attribution: str,
    with_stack: bool,
    with_flops: bool,
    with_modules: bool,
    experimental_config: Any,
    execution_trace_observer: Any,
    acc_events: bool,
    all_threads: bool,
    max_bytes: int,
    overflow: str,
    counters: Iterable[str] = (),
) -> Options:
    """Check and combine; errors.ValueError and errors.UnavailableError say what to change."""
    asked = parse_activities(activities if activities is not None else ())
    explicit = activities is not None
    if activity_filters:
        asked.update(parse_activities([{k: sorted(v)} for k, v in activity_filters.items()]))
    if not explicit:
        asked.setdefault(ProfilerActivity.CPU, None)
    if use_cuda and use_device is None:
        use_device = "cuda"
    if use_device is not None and str(use_device).lower() != "cpu":
        asked.setdefault(as_activity(_device_name(use_device)), None)
        explicit = True
    elif use_cuda is False:
        asked.pop(ProfilerActivity.CUDA, None)
    if not use_cpu:
        asked.pop(ProfilerActivity.CPU, None)
    if not asked:
        raise errors.UnavailableError(
            "nothing to profile: use_cpu=False needs a device among the activities, and activities "
            f"must not be empty; here {_names(supported_activities())} can be recorded"
        )
    wanted_counters = _counters(counters, experimental_config)
    missing = _missing(
        asked,
        execution_trace_observer,
    )
    events = _performance_events(experimental_config)
    if events and not wanted_counters:
        missing["performance_events"] = _core.counters_missing(events)
    kept = frozenset(a for a in asked if missing_reason(a) is None)
    if not kept:
        raise errors.UnavailableError(
            f"none of the activities {_names(asked)} can be recorded here: "
            + "; ".join(str(missing_reason(a)) for a in asked)
        )
    if memory_attribution not in MEMORY_RULES:
        raise errors.ValueError(
            f"unknown memory_attribution {memory_attribution!r}; choose from {', '.join(MEMORY_RULES)}"
        )
    if overflow not in OVERFLOW_POLICIES:
        raise errors.ValueError(
            f"unknown overflow policy {overflow!r}; choose from {', '.join(OVERFLOW_POLICIES)}"
        )
    if max_bytes != 0 and max_bytes < 65536:
        raise errors.ValueError(
            f"max_bytes must be at least 65536 (or 0 for the default), not {max_bytes}"
        )
    categories = category_mask(asked.get(ProfilerActivity.CPU))
    if profile_memory:
        categories |= _CATEGORY_MEMORY
    else:
        categories &= ~_CATEGORY_MEMORY
    device = _device_name(use_device) if use_device is not None else None
    if device is not None and as_activity(device) not in kept:
        device = None
    _warn_once(missing)
    return Options(
        activities=kept,
        categories=categories,
        use_device=device,
        record_shapes=record_shapes or with_flops,
        profile_memory=profile_memory,
        memory_attribution=memory_attribution,
        with_stack=with_stack,
        with_flops=with_flops,
        with_modules=with_modules,
        acc_events=acc_events,
        all_threads=all_threads,
        max_bytes=max_bytes,
        overflow=OVERFLOW_POLICIES[overflow],
        counters=wanted_counters,
        missing=missing,
    )


def _counters(given: Iterable[str], experimental_config: Any) -> tuple[str, ...]:
    """The perf counters to read: those given, which must be there, else the configuration's."""
    names = tuple(given)
    if isinstance(given, str) or any(not isinstance(name, str) for name in names):
        raise errors.ValueError('counters are names in a list, such as ["instructions"]')
    if names:
        reason = _core.counters_missing(list(names))
        if reason:
            raise errors.UnavailableError(f"perf counters are not available: {reason}")
        return names
    events = _performance_events(experimental_config)
    return () if not events or _core.counters_missing(events) else tuple(events)


def _performance_events(experimental_config: Any) -> list[str]:
    """The member of a configuration. PyTorch's can be read by the state it is pickled by only."""
    events = getattr(experimental_config, "performance_events", None)
    if events is None and type(experimental_config).__name__ == "_ExperimentalConfig":
        state = experimental_config.__getstate__()
        events = state[3] if len(state) > 3 and isinstance(state[3], list) else None
    return [name.decode() if isinstance(name, bytes) else str(name) for name in events or ()]


def _names(activities: Iterable[ProfilerActivity]) -> str:
    return ", ".join(sorted(a.name for a in activities))


def _device_name(device: Any) -> str:
    """The kind in "cuda", "cuda:1" or a torch.device."""
    kind = str(getattr(device, "type", device)).split(":")[0].lower()
    return "privateuse1" if kind == "privateuseone" else kind


def _missing(
    asked: Iterable[ProfilerActivity],
    execution_trace_observer: Any,
) -> dict[str, str]:
    missing = {a.name: str(missing_reason(a)) for a in asked if missing_reason(a) is not None}
    if execution_trace_observer is not None and not hasattr(execution_trace_observer, "start"):
        missing["execution_trace_observer"] = "it has no start() and stop() to call"
    return missing


def _warn_once(missing: Mapping[str, str], stacklevel: int = 4) -> None:
    for name, reason in missing.items():
        if name in ProfilerActivity.__members__:  # each time, as PyTorch does
            text = f"{name} is not available, disabling {name} profiling: {reason}"
            warnings.warn(text, stacklevel=stacklevel)
        elif name not in _warned:
            _warned.add(name)
            warnings.warn(f"profile: {reason}", stacklevel=stacklevel)


def tell_missing(options: Options, name: str, reason: str) -> None:
    """What only the start of a recording finds missing: into `missing`, and a warning the first time."""
    options.missing[name] = reason
    # At the program's line, however many of our functions lie between.
    package = os.path.dirname(os.path.dirname(__file__)) + os.sep
    stacklevel = 3
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_code.co_filename.startswith(package):
        frame = frame.f_back
        stacklevel += 1
    _warn_once({name: reason}, stacklevel=stacklevel)
