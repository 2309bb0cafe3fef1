# SPDX-License-Identifier: Apache-2.0
"""The exclusive profiler, with the interface of torch.autograd.profiler_legacy.

It records the ranges of one thread and of work propagated from it: `record_function` ranges and those
of annotated C++ libraries, but no PyTorch ops. It is for programs that use PyTorch's legacy profiler,
and for collecting what other processes recorded (`add_remote_events`). Otherwise use fastprof.profile,
which records more, on all threads, at a lower cost.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterable
from types import TracebackType
from typing import Any, Literal

from fastprof import _core
from fastprof.base import errors
from fastprof.base.native_numbers import ProfilerState
from fastprof.compat.records import LegacyRecord, parse_records
from fastprof.views import EventList, FunctionEventAvg

__all__ = [
    "add_remote_events",
    "decode_events",
    "default_node_id",
    "profile",
    "set_default_node_id",
]

default_node_id = _core.default_node_id
_UNFINISHED = "Profiler didn't finish running. Read results after the with block."


def set_default_node_id(node_id: int) -> None:
    """Set the node number of this process in a distributed program, for every thread.

    node_id: 0 or more; errors.ValueError for a negative number. It applies to events without a node of
    their own: those of profiles that end later, and the records of the exclusive profiler. Any thread.
    """
    _core.set_default_node_id(node_id)


def add_remote_events(events: bytes) -> None:
    """Add the recording of another process to the profile that runs on this thread.

    events: the bytes of `profile.encode()` of that process. Its lists remain separate lists, and its
    events are remote (`FunctionEvent.is_remote`), with the node id of that process
    (`set_default_node_id`). Raises errors.StateError if no exclusive profile runs on this thread, and
    errors.FormatError, naming the byte, for invalid bytes; then nothing is added. Callable on any
    thread to which the profile was propagated.
    """
    _core.add_remote_events(events)


def decode_events(events: bytes) -> list[list[LegacyRecord]]:
    """Decode the bytes of `profile.encode()` to lists of records, all of them remote.

    Raises errors.FormatError, naming the byte, for invalid bytes.
    """
    return _records(_core.LegacyEvents.decode(events))


def _records(events: _core.LegacyEvents) -> list[list[LegacyRecord]]:
    return [
        [
            LegacyRecord(kind, name.decode("utf-8", "replace"), *rest)
            for kind, name, *rest in records
        ]
        for records in events.records()
    ]


class profile:  # noqa: N801 - PyTorch's name
    """Record the ranges of this thread, like torch.autograd.profiler_legacy.profile.

    enabled: False makes a context manager that does nothing.
    use_cuda: time device work by CUDA events, or by the device support that a plug-in has registered
    (fastprof::register_device_stubs); where neither works, warn and record only CPU times.
    use_device: "cuda" for use_cuda; "privateuse1" or the name of a device plug-in's device
    (fastprof.devices) to time its work, with the same warning.
    record_shapes: record shapes of inputs. with_flops: estimate FLOPs; implies record_shapes.
    profile_memory: record memory that allocators report.
    with_stack: record Python frames at the begin of each range.
    with_modules: no effect.

    Raises errors.StateError (a RuntimeError) if this thread already has an exclusive profile, if the
    object is entered twice, or if its results are read before the end. Use it on one thread; work handed
    to others through fastprof.propagate is recorded as well.

        with fastprof.profiler_legacy.profile() as prof:
            with fastprof.record_function("step"):
                step()
        print(prof.key_averages().table())
    """

    def __init__(
        self,
        enabled: bool = True,
        *,
        use_cuda: bool = False,
        record_shapes: bool = False,
        with_flops: bool = False,
        profile_memory: bool = False,
        with_stack: bool = False,
        with_modules: bool = False,
        use_device: str | None = None,
    ) -> None:
        self.enabled = enabled
        self.function_events: EventList[Any] | None = None
        self.entered = False
        self.record_shapes = record_shapes or with_flops
        self.with_flops = with_flops
        self.profile_memory = profile_memory
        self.with_stack = with_stack
        self.with_modules = with_modules
        self.use_device = "cuda" if use_cuda else _device_of(use_device)
        self._events: _core.LegacyEvents | None = None
        if enabled and self.use_device is not None:
            if self.use_device == "cuda":
                from fastprof.record.gpus import gpu_vendor

                gpu_vendor().register()
            reason = _missing(self.use_device)
            if reason:
                device = self.use_device.upper()
                warnings.warn(
                    f"{device} is not available, disabling {device} profiling: {reason}",
                    stacklevel=2,
                )
                self.use_device = None

    @property
    def use_cuda(self) -> bool:
        """Whether work on CUDA devices is timed."""
        return self.use_device == "cuda"

    def __enter__(self) -> profile | None:
        if not self.enabled:
            return None
        if self.entered:
            raise errors.StateError(
                "Profiler context manager is not reentrant. Make a profile for each with block."
            )
        _core.legacy_enable(
            state=_state_of(self.use_device),
            record_shapes=self.record_shapes,
            profile_memory=self.profile_memory,
            with_stack=self.with_stack,
            with_flops=self.with_flops,
            with_modules=self.with_modules,
        )
        self.entered = True
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc_val: BaseException | None,
        exc_tb: TracebackType | None,
    ) -> Literal[False]:
        if self.enabled:
            self._events = _core.legacy_disable()
            self.function_events = parse_records(
                _records(self._events) if self._events.records() else _EMPTY,
                use_device=self.use_device,
                profile_memory=self.profile_memory,
                with_flops=self.with_flops,
            )
            self.function_events._build_tree()
        return False

    def __repr__(self) -> str:
        if self.function_events is None:
            return "<unfinished profiler_legacy.profile>"
        return repr(self.function_events)

    def __str__(self) -> str:
        if self.function_events is None:
            return "<unfinished profile.profiler_legacy.profile>"
        return str(self.function_events)

    def _finished(self) -> EventList[Any]:
        if self.function_events is None:
            raise errors.StateError(_UNFINISHED)
        return self.function_events

    def table(
        self,
        sort_by: str | None = None,
        row_limit: int = 100,
        max_src_column_width: int = 75,
        max_name_column_width: int = 55,
        max_shapes_column_width: int = 80,
        header: str | None = None,
        top_level_events_only: bool = False,
    ) -> str:
        """Return the events as a table: see EventList.table."""
        return self._finished().table(
            sort_by=sort_by,
            row_limit=row_limit,
            max_src_column_width=max_src_column_width,
            max_name_column_width=max_name_column_width,
            max_shapes_column_width=max_shapes_column_width,
            header=header,
            top_level_events_only=top_level_events_only,
        )

    def export_chrome_trace(self, path: str | os.PathLike[str]) -> None:
        """Write a Chrome trace: see EventList.export_chrome_trace."""
        self._finished().export_chrome_trace(path)

    def export_stacks(
        self, path: str | os.PathLike[str], metric: str = "self_cpu_time_total"
    ) -> None:
        """Write collapsed stacks: see EventList.export_stacks. Needs with_stack=True."""
        events = self._finished()
        if not self.with_stack:
            raise AssertionError("export_stacks() requires with_stack=True")
        events.export_stacks(path, metric)

    def key_averages(
        self, group_by_input_shape: bool = False, group_by_stack_n: int = 0
    ) -> EventList[Any]:
        """Return averages by name: see EventList.key_averages."""
        return self._finished().key_averages(group_by_input_shape, group_by_stack_n)

    def total_average(self) -> FunctionEventAvg:
        """Return the sum over all events."""
        return self._finished().total_average()

    @property
    def self_cpu_time_total(self) -> float:
        """Sum of the self CPU times of all events, us."""
        return self._finished().self_cpu_time_total

    # ---- the underlying records ----------------------------------------------------------------

    def _recorded(self) -> _core.LegacyEvents:
        self._finished()
        if self._events is None:
            raise errors.StateError(_UNFINISHED)
        return self._events

    def records(self) -> list[list[LegacyRecord]]:
        """Return the records: one list per thread, by thread id, then the remote lists."""
        return _records(self._recorded())

    def encode(self) -> bytes:
        """Return the records as bytes for `add_remote_events` of another process."""
        return self._recorded().encode()

    def export_json(self, path: str | os.PathLike[str]) -> None:
        """Write every field of every record: {"version": 1, "lists": [[record, ...], ...]}."""
        from fastprof.base.atomic_file import atomic_text

        with atomic_text(path) as file:
            file.write(self._recorded().json())


def _device_of(name: str | None) -> str | None:
    """Return the kind of a device, lower case and without its index; None for the CPU."""
    kind = None if name is None else str(name).split(":")[0].lower()
    return None if kind == "cpu" else kind


def _state_of(device: str | None) -> ProfilerState:
    if device is None:
        return ProfilerState.CPU
    return ProfilerState.CUDA if device == "cuda" else ProfilerState.PRIVATEUSE1


def _missing(device: str) -> str:
    """Return why work on a device cannot be timed; empty if it can. Selects the stubs of a plug-in."""
    if device not in ("cuda", "privateuse1", "privateuseone"):
        try:
            _core.select_device_stubs(device)
        except errors.UnavailableError as error:
            return str(error)
    return _core.legacy_state_missing(_state_of(device))


# Records of a profile that a forked child inherited from its parent: only the start mark.
_EMPTY: Iterable[Iterable[Any]] = ((LegacyRecord("mark", "__start_profile"),),)
