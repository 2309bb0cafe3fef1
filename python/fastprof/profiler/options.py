# SPDX-License-Identifier: Apache-2.0
"""Options: the checked arguments of profile(), and which of them cannot be honoured here."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from numbers import Real
from operator import index
from types import FrameType
from typing import Any, SupportsIndex

from fastprof import _core
from fastprof.base import errors
from fastprof.base.native_numbers import Category, OverflowPolicy
from fastprof.base.sample_rate import MAX_SAMPLE_HZ, is_sample_rate
from fastprof.profiler.config import config_fields, missing_of_config, sets_all_threads
from fastprof.record import python_calls as calls
from fastprof.record.activities import (
    ProfilerActivity,
    as_activity,
    category_mask,
    parse_activities,
)
from fastprof.record.availability import device_kinds, missing_reason, supported_activities

__all__ = ["OVERFLOW_POLICIES", "Options", "make_options", "outside_level", "report_missing"]

OVERFLOW_POLICIES = {
    "drop_newest": OverflowPolicy.DROP_NEWEST,
    "overwrite_oldest": OverflowPolicy.OVERWRITE_OLDEST,
    "spill": OverflowPolicy.SPILL_TO_FILE,
}

# The names of fastprof.analysis.memory_attribution.RULES; importing that module would load NumPy.
MEMORY_RULES = ("innermost", "interval")

_warned: set[str] = set()


@dataclass(frozen=True)
class Options:
    """The checked arguments of a profile.

    asked: the requested activities. activities: the subset that is recorded.
    filters: activity -> type names, for the activities that were given with type names.
    quiet: do not warn of what is missing.
    missing: what was requested but is not recorded -> reason.
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
    native: bool
    with_flops: bool
    with_modules: bool
    acc_events: bool
    all_threads: bool
    max_bytes: int
    max_name_bytes: int
    overflow: int
    # Device backend -> activity types, as in traces, that it collects.
    device_types: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    spill_folder: str = ""
    backing_file: str = ""
    keep_backing_file: bool = False
    counters: tuple[str, ...] = ()
    python_calls: calls.CallFilter | None = None
    gc_events: bool = False
    python_memory: str = ""  # "sampled", "exact"; "": not recorded
    trace_only: bool = False
    verbose: bool = False
    kineto_metadata: bool = False
    follow_children: bool = False
    tasks: bool = True
    sample_hz: float = 0.0  # 0: stacks are not sampled
    sample_tasks: bool = False
    sample_file: str = ""  # of a followed process
    quiet: bool = False
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
    backing_file: str | os.PathLike[str] | None = None,
    keep_backing_file: bool = False,
    counters: Iterable[str] = (),
    python_calls: bool | calls.CallFilter | None = None,
    native: bool = False,
    follow_children: bool = False,
    tasks: bool = True,
    python_memory: bool | str = False,
    sample_hz: float | None = None,
    sample_tasks: bool = False,
    post_processing_timeout_s: float | None = None,
) -> Options:
    """Check and combine the arguments of profile().

    Raises errors.ValueError for invalid values and errors.UnavailableError if nothing that was
    requested can be recorded; both say what to change. Warns of each entry of `missing`.
    """
    reason_of = cache(missing_reason)  # the reason for CUDA queries CUPTI
    asked = parse_activities(activities if activities is not None else ())
    explicit = activities is not None
    if activity_filters:
        if not isinstance(activity_filters, Mapping):
            raise errors.ValueError(
                "activity_filters must map activities to type names, such as {ProfilerActivity.CPU: ['cpu_op']},"
                f" not {activity_filters!r}"
            )
        filters = parse_activities(activity_filters)
        asked.update({a: None if t is None else tuple(sorted(t)) for a, t in filters.items()})
    if not explicit:
        for activity in ProfilerActivity:  # as in PyTorch
            if reason_of(activity) is None:
                asked.setdefault(activity, None)
    if use_cuda and use_device is None:
        use_device = "cuda"
    if use_device is not None and str(use_device).lower() != "cpu":
        asked.setdefault(_activity_of(_device_name(use_device)), None)
        explicit = True
    elif use_cuda is False:
        asked.pop(ProfilerActivity.CUDA, None)
    if not use_cpu:
        asked.pop(ProfilerActivity.CPU, None)
    if not asked:
        raise errors.UnavailableError(
            "no activities to record. Pass at least one that can be recorded here: "
            f"{_names(supported_activities())} (use_cpu=False removes CPU)."
        )
    config = config_fields(experimental_config)
    events = _performance_events(config)
    wanted_counters = _counters(counters, events)
    lacking = {a: reason for a in asked if (reason := reason_of(a)) is not None}
    missing = {activity.name: reason for activity, reason in lacking.items()}
    if execution_trace_observer is not None and not hasattr(execution_trace_observer, "start"):
        missing["execution_trace_observer"] = (
            "the execution_trace_observer is not used: it has no methods start() and stop()"
        )
    missing.update(missing_of_config(config))
    if events and not wanted_counters:
        missing["performance_events"] = _core.counters_missing(events)
    if post_processing_timeout_s is not None:
        limit: Any = post_processing_timeout_s
        if not isinstance(limit, Real) or not float(limit) >= 0:
            raise errors.ValueError(
                f"post_processing_timeout_s must be a number, at least 0, not {limit!r}. Leave it out:"
                " it has no effect."
            )
        missing["post_processing_timeout_s"] = (
            "post_processing_timeout_s has no effect: results are read on first access, and in full"
        )
    calls_by_default = with_stack or (native and not sample_hz)
    with_stack = with_stack or native
    trace_only = bool(config.get("trace_only"))
    if trace_only and with_stack:
        trace_only = False
        missing["trace_only"] = "trace_only has no effect together with with_stack=True"
    if all_threads is None:
        all_threads = config.get("profile_all_threads") is not False or not sets_all_threads(
            experimental_config
        )
    kept = frozenset(asked.keys() - lacking.keys())
    if not kept:
        raise errors.UnavailableError(
            f"none of the activities {_names(asked)} can be recorded here: "
            + "; ".join(lacking.values())
        )
    if memory_attribution not in MEMORY_RULES:
        raise errors.ValueError(
            f"unknown memory_attribution {memory_attribution!r}. Use one of {', '.join(MEMORY_RULES)}."
        )
    if overflow not in OVERFLOW_POLICIES:
        raise errors.ValueError(
            f"unknown overflow policy {overflow!r}. Use one of {', '.join(OVERFLOW_POLICIES)}."
        )
    if spill_folder is not None and overflow != "spill":
        raise errors.ValueError('spill_folder has no effect without overflow="spill". Pass both.')
    if backing_file is not None and overflow == "spill":
        raise errors.ValueError(
            'backing_file cannot be used with overflow="spill". Pass one of them.'
        )
    if keep_backing_file and backing_file is None:
        raise errors.ValueError(
            "keep_backing_file=True has no effect without backing_file. Pass both."
        )
    size: Any
    for name, size, default in (
        ("max_bytes", max_bytes, "the default"),
        ("max_name_bytes", max_name_bytes, "64 MB"),
    ):
        if not isinstance(size, SupportsIndex) or (size != 0 and index(size) < 65536):
            raise errors.ValueError(
                f"{name} must be at least 65536 (or 0 for {default}) and a whole number, not {size!r}"
            )
    if python_memory not in (False, True, "sampled", "exact"):
        raise errors.ValueError(
            f"unknown python_memory {python_memory!r}. Use True or 'sampled' (a sample of the blocks), or 'exact' "
            "(each block)."
        )
    if sample_hz is not None and not is_sample_rate(sample_hz):
        raise errors.ValueError(
            f"sample_hz must be above 0 and at most {MAX_SAMPLE_HZ}, not {sample_hz!r}. Use 100 to 1000, or None for"
            " no samples."
        )
    if sample_tasks and not sample_hz:
        raise errors.ValueError("sample_tasks=True requires sample_hz. Add sample_hz=1000.")
    if sample_hz and follow_children and (native or sample_tasks):
        what = [name for name, on in (("native", native), ("sample_tasks", sample_tasks)) if on]
        missing["sample_hz"] = (
            f"{' and '.join(what)} apply to the samples of this process only: those of the processes that it starts"
            " are of Python stacks of threads"
        )
    profile_memory = profile_memory or bool(python_memory)
    categories = 0
    if ProfilerActivity.CPU in kept:
        categories = category_mask(asked[ProfilerActivity.CPU])
    if profile_memory:
        categories |= Category.MEMORY
    else:
        categories &= ~Category.MEMORY
    if python_calls is None:
        python_calls = calls_by_default and bool(categories & Category.PYTHON_CALL)
    traced = _traced_calls(python_calls)
    if traced is not None:
        categories |= Category.PYTHON_CALL
    else:
        categories &= ~Category.PYTHON_CALL
    if with_modules and categories & (Category.OP | Category.USER):
        categories |= Category.PYTHON_MODULE
    else:
        categories &= ~Category.PYTHON_MODULE
    if not tasks:
        categories &= ~Category.TASK
    device_types: dict[str, tuple[str, ...]] = {}
    if ProfilerActivity.CUDA in kept:
        missing.pop("enable_cuda_sync_events", None)
    waits = bool(config.get("enable_cuda_sync_events"))
    for activity in sorted(kept, key=lambda a: (a is not ProfilerActivity.CUDA, a.value)):
        kinds = tuple(device_kinds(activity))
        for kind in kinds:
            if len(kinds) > 1 and kind.problem() is not None:  # another one can be recorded
                continue
            device_types[kind.name] = kind.types(asked[activity], waits, profile_memory)
            categories |= Category.RUNTIME | Category.DEVICE
            if use_device is None or _device_name(use_device) == activity.name.lower():
                use_device = kind.device
    device = _device_name(use_device) if use_device is not None else None
    if device is not None and _activity_of(device) not in kept:
        device = None
    _warn_once(missing)
    return Options(
        activities=kept,
        asked=frozenset(asked),
        filters={a: frozenset(names) for a, names in asked.items() if names is not None},
        categories=categories,
        use_device=device,
        device_types=device_types,
        record_shapes=record_shapes or with_flops,
        profile_memory=profile_memory,
        memory_attribution=memory_attribution,
        with_stack=with_stack,
        native=native,
        with_flops=with_flops,
        with_modules=with_modules,
        acc_events=acc_events,
        all_threads=all_threads,
        max_bytes=max_bytes,
        max_name_bytes=max_name_bytes,
        overflow=OVERFLOW_POLICIES[overflow],
        spill_folder="" if spill_folder is None else os.fspath(spill_folder),
        backing_file="" if backing_file is None else os.fspath(backing_file),
        keep_backing_file=bool(keep_backing_file),
        counters=wanted_counters,
        python_calls=traced,
        gc_events=bool(config.get("record_python_gc_info")),
        python_memory=("exact" if python_memory == "exact" else "sampled") if python_memory else "",
        trace_only=trace_only,
        verbose=bool(config.get("verbose")),
        kineto_metadata=bool(config.get("expose_kineto_event_metadata")),
        follow_children=bool(follow_children),
        tasks=bool(categories & Category.TASK),
        sample_hz=float(sample_hz or 0),
        sample_tasks=bool(sample_tasks),
        missing=missing,
    )


def _traced_calls(python_calls: bool | calls.CallFilter) -> calls.CallFilter | None:
    """Return which calls to record; None for none."""
    traced = calls.CallFilter() if python_calls is True else python_calls or None
    if traced is not None and not isinstance(traced, calls.CallFilter):
        raise errors.ValueError(
            f"python_calls must be True, False or a CallFilter, not {python_calls!r}"
        )
    return traced


def _counters(given: Iterable[str], of_config: list[str]) -> tuple[str, ...]:
    """Return the perf counters to read: `given`, else those of the configuration.

    Raises errors.UnavailableError if a counter in `given` cannot be read.
    """
    names = tuple(given)
    if isinstance(given, str) or any(not isinstance(name, str) for name in names):
        raise errors.ValueError(
            f'counters must be a list of names, such as ["instructions"], not {given!r}'
        )
    if names:
        reason = _core.counters_missing(list(names))
        if reason:
            raise errors.UnavailableError(f"perf counters are not available: {reason}")
        return names
    return () if not of_config or _core.counters_missing(of_config) else tuple(of_config)


def _performance_events(config: Mapping[str, Any]) -> list[str]:
    """Return the counter names of a configuration; PyTorch's own object holds them as bytes."""
    events = config.get("performance_events") or ()
    return [name.decode() if isinstance(name, bytes) else str(name) for name in events]


def _names(activities: Iterable[ProfilerActivity]) -> str:
    return ", ".join(sorted(a.name for a in activities))


def _activity_of(device: str) -> ProfilerActivity:
    """Return the activity of a kind of device, or of a plug-in's device by its name."""
    if device not in {activity.name.lower() for activity in ProfilerActivity}:
        from fastprof.record.devices import find

        plugin = find(device)
        if plugin is not None:
            return plugin.activity
    return as_activity(device)


def _device_name(device: Any) -> str:
    """Return the device kind of "cuda", "cuda:1" or a torch.device."""
    kind = str(getattr(device, "type", device)).split(":")[0].lower()
    return "privateuse1" if kind == "privateuseone" else kind


def _warn_once(missing: Mapping[str, str], begun: bool = False) -> None:
    for name, reason in missing.items():
        if name in ProfilerActivity.__members__:  # warn each time, as PyTorch does
            what = "not all of its work is in this profile"
            if not begun:
                what = f"is not available, disabling {name} profiling"  # PyTorch's words
            _warn(f"{name}{':' if begun else ''} {what}: {reason}")
        elif name not in _warned:
            _warned.add(name)
            _warn(f"profile: {reason}")


def _warn(text: str) -> None:
    try:
        warnings.warn(text, stacklevel=outside_level())
    except ValueError:
        if sys.stderr is None or not sys.stderr.closed:
            raise


def outside_level() -> int:
    """Return the stacklevel at which a warning of the caller shows a line outside fastprof."""
    package = os.path.dirname(os.path.dirname(__file__)) + os.sep
    level = 1
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_code.co_filename.startswith(package):
        frame = frame.f_back
        level += 1
    return level


def report_missing(options: Options, name: str, reason: str) -> None:
    """Add an entry to `missing` once recording starts; warn the first time that `name` is missing."""
    options.missing[name] = reason
    if not options.quiet:
        _warn_once({name: reason}, begun=True)
