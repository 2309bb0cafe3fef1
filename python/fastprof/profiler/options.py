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

from fastprof import _core
from fastprof.base import errors
from fastprof.profiler.config import config_fields, missing_of_config, says_threads
from fastprof.record.activities import (
    ProfilerActivity,
    as_activity,
    category_mask,
    missing_reason,
    parse_activities,
    supported_activities,
)

__all__ = ["OVERFLOW_POLICIES", "Options", "make_options", "outside_level", "tell_missing"]

# OverflowPolicy of csrc/include/fastprof/recorder/state.hpp.
OVERFLOW_POLICIES = {"drop_newest": 0, "overwrite_oldest": 1, "spill": 2}

# fastprof.analysis.memory_attribution.RULES, without loading NumPy for it.
MEMORY_RULES = ("innermost", "interval")

_CATEGORY_MEMORY = 1 << 2
_warned: set[str] = set()


@dataclass(frozen=True)
class Options:
    """What profile() was asked for. `missing`: what of it is not recorded, with the reason.

    asked: every activity that was given; activities: those of them that are recorded. filters: the
    type names of activities that were given with some.
    """

    activities: frozenset[ProfilerActivity]
    asked: frozenset[ProfilerActivity]
    filters: dict[ProfilerActivity, frozenset[str]]
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
    max_name_bytes: int
    overflow: int
    spill_folder: str = ""
    counters: tuple[str, ...] = ()
    gc_events: bool = False
    trace_only: bool = False
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
    all_threads: bool | None,
    max_bytes: int,
    max_name_bytes: int,
    overflow: str,
    spill_folder: str | os.PathLike[str] | None = None,
    counters: Iterable[str] = (),
    post_processing_timeout_s: float | None = None,
) -> Options:
    """Check and combine; errors.ValueError and errors.UnavailableError say what to change."""
    asked = parse_activities(activities if activities is not None else ())
    explicit = activities is not None
    if activity_filters:
        asked.update(parse_activities([{k: sorted(v) for k, v in activity_filters.items()}]))
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
    config = config_fields(experimental_config)
    events = _performance_events(config)
    wanted_counters = _counters(counters, events)
    missing = _missing(
        asked,
        execution_trace_observer,
    )
    missing.update(missing_of_config(config))
    if events and not wanted_counters:
        missing["performance_events"] = _core.counters_missing(events)
    if post_processing_timeout_s is not None:
        if post_processing_timeout_s < 0:
            raise errors.ValueError(
                f"post_processing_timeout_s must be at least 0, not {post_processing_timeout_s}"
            )
        missing["post_processing_timeout_s"] = (
            "results are never cut at post_processing_timeout_s: they are read when asked for, in full"
        )
    trace_only = bool(config.get("trace_only"))
    if trace_only and with_stack:
        trace_only = False
        missing["trace_only"] = "trace_only does not go with with_stack=True: it is left out"
    if all_threads is None:
        all_threads = config.get("profile_all_threads") is not False or not says_threads(
            experimental_config
        )
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
    if spill_folder is not None and overflow != "spill":
        raise errors.ValueError('spill_folder is used with overflow="spill" only: give both')
    if max_bytes != 0 and max_bytes < 65536:
        raise errors.ValueError(
            f"max_bytes must be at least 65536 (or 0 for the default), not {max_bytes}"
        )
    if max_name_bytes != 0 and max_name_bytes < 65536:
        raise errors.ValueError(
            f"max_name_bytes must be at least 65536 (or 0 for 64 MB), not {max_name_bytes}"
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
        asked=frozenset(asked),
        filters={a: frozenset(names) for a, names in asked.items() if names is not None},
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
        max_name_bytes=max_name_bytes,
        overflow=OVERFLOW_POLICIES[overflow],
        spill_folder="" if spill_folder is None else os.fspath(spill_folder),
        counters=wanted_counters,
        gc_events=bool(config.get("record_python_gc_info")),
        trace_only=trace_only,
        missing=missing,
    )


def _counters(given: Iterable[str], of_config: list[str]) -> tuple[str, ...]:
    """The perf counters to read: those given, which must be there, else the configuration's."""
    names = tuple(given)
    if isinstance(given, str) or any(not isinstance(name, str) for name in names):
        raise errors.ValueError('counters are names in a list, such as ["instructions"]')
    if names:
        reason = _core.counters_missing(list(names))
        if reason:
            raise errors.UnavailableError(f"perf counters are not available: {reason}")
        return names
    return () if not of_config or _core.counters_missing(of_config) else tuple(of_config)


def _performance_events(config: Mapping[str, Any]) -> list[str]:
    """The names in a configuration; PyTorch's own has them as bytes."""
    events = config.get("performance_events") or ()
    return [name.decode() if isinstance(name, bytes) else str(name) for name in events]


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


def _warn_once(missing: Mapping[str, str]) -> None:
    for name, reason in missing.items():
        if name in ProfilerActivity.__members__:  # each time, as PyTorch does
            text = f"{name} is not available, disabling {name} profiling: {reason}"
            warnings.warn(text, stacklevel=outside_level())
        elif name not in _warned:
            _warned.add(name)
            warnings.warn(f"profile: {reason}", stacklevel=outside_level())


def outside_level() -> int:
    """The stacklevel by which a warning of the caller shows the program's line, not one of fastprof."""
    package = os.path.dirname(os.path.dirname(__file__)) + os.sep
    level = 1
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_code.co_filename.startswith(package):
        frame = frame.f_back
        level += 1
    return level


def tell_missing(options: Options, name: str, reason: str) -> None:
    """What only the start of a recording finds missing: into `missing`, and a warning the first time."""
    options.missing[name] = reason
    _warn_once({name: reason})
