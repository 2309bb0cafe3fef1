# SPDX-License-Identifier: Apache-2.0
"""The Metal profiler: signposts for Instruments, statistics of Metal work, captures for Xcode.

It has the functions of torch.mps.profiler, and those that PyTorch's MPSProfiler offers only to C++ and through the
environment. They profile all command buffers that the process commits, those of PyTorch included, and operations that
native code profiles explicitly. docs/metal.md explains the results.
"""

from __future__ import annotations

import enum
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from fastprof import _core
from fastprof.base import errors
from fastprof.record.metal_problem import metal_problem

__all__ = [
    "CopyStatistics",
    "FallbackStatistics",
    "LogOptions",
    "MetalStatistics",
    "OperationStatistics",
    "emit_signposts",
    "is_capturing_metal",
    "is_metal_capture_enabled",
    "log_options",
    "metal_capture",
    "profile",
    "set_log_options",
    "start",
    "statistics",
    "stop",
    "tables",
]


class LogOptions(enum.IntFlag):
    """What is logged to standard error, with the bit values of PyTorch's MPSProfiler."""

    NONE = 0
    OPERATION_INFO = 1 << 0
    COPY_INFO = 1 << 1
    CPU_FALLBACK_INFO = 1 << 2
    ALL_STATS = 1 << 3
    OPERATION_STATS = 1 << 4
    COPY_STATS = 1 << 5
    CPU_FALLBACK_STATS = 1 << 6
    INCLUDE_GPU_TIME = 1 << 7
    INCLUDE_KERNEL_TIME = 1 << 8
    INCLUDE_BUFFER_ID = 1 << 9


@dataclass(frozen=True)
class OperationStatistics:
    """Sums of one kernel, graph, or kind of command buffer (by its label). Times in ms.

    profile_id: unique among graphs, and unique among all others. completed_count: runs whose times are in the sums.
    """

    profile_id: int
    is_graph: bool
    name: str
    run_count: int
    completed_count: int
    gpu_ms: float
    scheduling_ms: float

    @property
    def mean_gpu_ms(self) -> float:
        """Mean GPU time of a run, ms."""
        return self.gpu_ms / self.run_count if self.run_count else 0.0


@dataclass(frozen=True)
class FallbackStatistics:
    """Sums of one op that fell back to the CPU. copy_overhead_bytes: bytes copied to the CPU and back."""

    profile_id: int
    op_name: str
    run_count: int
    cpu_ms: float
    copy_overhead_bytes: int


@dataclass(frozen=True)
class CopyStatistics:
    """Sums of the copies of one kind: "MPS to MPS", "MPS to CPU" or "CPU to MPS". Times in ms.

    scalar_count: copies of at most 8 bytes. memcpy_count: copies made by the CPU, whose time is in scheduling_ms.
    """

    kind: str
    count: int
    bytes: int
    gpu_ms: float
    scheduling_ms: float
    scalar_count: int
    scalar_gpu_ms: float
    blocking_count: int
    memcpy_count: int


@dataclass(frozen=True)
class MetalStatistics:
    """Sums since the Metal profiler was first used.

    failed_count: command buffers that failed. pending_count: command buffers that have not completed yet.
    """

    operations: tuple[OperationStatistics, ...]
    fallbacks: tuple[FallbackStatistics, ...]
    copies: tuple[CopyStatistics, ...]
    graph_count: int
    kernel_count: int
    copy_count: int
    fallback_count: int
    failed_count: int
    pending_count: int


def start(mode: str = "interval", wait_until_completed: bool = False) -> None:
    """Begin to emit signposts of Metal work, which Instruments' template "Logging" shows.

    mode: "interval", "event", or "interval,event". An interval lasts from when the GPU may start until it has
    completed the work; an event is emitted at completion and has the GPU's time. wait_until_completed: each
    commit waits for the GPU, so that intervals do not overlap. Raises errors.UnavailableError on systems other
    than macOS, errors.ValueError for another mode, errors.StateError if signposts are already emitted. Any thread.
    """
    _need_metal()
    _core.metal_start(mode, wait_until_completed)


def stop() -> None:
    """End the signposts of start(). Raises errors.UnavailableError on systems other than macOS. Any thread."""
    _need_metal()
    _core.metal_stop()


@contextmanager
def profile(mode: str = "interval", wait_until_completed: bool = False) -> Iterator[None]:
    """Emit signposts of the Metal work of a block. Parameters and errors are those of start().

    with fastprof.metal.profile("interval,event"):
        step()
    """
    start(mode, wait_until_completed)
    try:
        yield
    finally:
        stop()


@contextmanager
def emit_signposts() -> Iterator[None]:
    """Emit a signpost interval for every range and torch op that begins in a block, on all threads.

    Instruments then shows record_function(), annotated C++ code and ops beside the GPU's work; no profile is needed.
    Ops are emitted once torch is imported. An interval has the name of its range or op. Warns if ops cannot be
    emitted. Raises errors.UnavailableError on systems other than macOS, errors.StateError inside another such block.
    """
    _need_metal()
    from fastprof.adapters.torch.emission import OpEmission

    emission = _core.SignpostEmission()
    emission.begin()
    ops = OpEmission(emission, False, _warn)
    try:
        ops.start()
        yield
    finally:
        ops.stop()
        emission.end()


@contextmanager
def metal_capture(fname: str) -> Iterator[str]:
    """Capture the GPU work of a block into a document that Xcode opens; yield its path.

    fname: the document's file name is "NNNN-FNAME.gputrace", where NNNN counts captures; a folder in fname is kept.
    The process must have been started with MTL_CAPTURE_ENABLED=1. Raises errors.UnavailableError if it was not,
    on systems other than macOS, and if the system refuses; errors.StateError if a capture is running.
    """
    _need_metal()
    path = _core.metal_start_capture(fname)
    try:
        yield path
    finally:
        _core.metal_stop_capture()


def is_metal_capture_enabled() -> bool:
    """Return whether metal_capture() can capture: False without Metal or without MTL_CAPTURE_ENABLED=1."""
    return metal_problem() is None and _core.metal_capture_enabled()


def is_capturing_metal() -> bool:
    """Return whether a capture is running. Any thread."""
    return metal_problem() is None and _core.metal_is_capturing()


def log_options() -> LogOptions:
    """Return the current log options. Raises errors.UnavailableError on systems other than macOS. Any thread."""
    _need_metal()
    return LogOptions(_core.metal_options()[2])


def set_log_options(options: LogOptions | int) -> None:
    """Set the log options: lines while work runs, tables when the process exits or receives SIGINT.

    Their initial value comes from FASTPROF_METAL_LOG_PROFILE_INFO or PYTORCH_MPS_LOG_PROFILE_INFO. Raises
    errors.UnavailableError on systems other than macOS, errors.ValueError for unknown bits. Any thread.
    """
    _need_metal()
    _core.metal_set_log_options(int(options))


def statistics(*, wait_s: float = 10.0) -> MetalStatistics:
    """Return the sums by operation, by kind of copy, and by op that fell back to the CPU.

    Work is summed while log options, signposts or a profile observe it. wait_s: maximum time to wait for work
    that has been committed, in seconds. Raises errors.UnavailableError on systems other than macOS. Any thread.
    """
    _need_metal()
    if wait_s > 0:
        _core.metal_wait_for_pending(wait_s)
    found = _core.metal_statistics()
    return MetalStatistics(
        operations=tuple(OperationStatistics(**row) for row in found.pop("operations")),
        fallbacks=tuple(FallbackStatistics(**row) for row in found.pop("fallbacks")),
        copies=tuple(CopyStatistics(**row) for row in found.pop("copies")),
        **found,
    )


def tables(options: LogOptions | int = LogOptions.ALL_STATS, *, wait_s: float = 10.0) -> str:
    """Return the sums as the tables that PyTorch's MPSProfiler prints.

    options: the tables to return: OPERATION_STATS, COPY_STATS, CPU_FALLBACK_STATS. wait_s and errors are those of
    statistics(). Any thread.
    """
    _need_metal()
    if wait_s > 0:
        _core.metal_wait_for_pending(wait_s)
    return _core.metal_tables(int(options))


def _warn(reason: str) -> None:
    # Of the statement that entered the block: contextlib and OpEmission lie between.
    warnings.warn(f"emit_signposts: {reason}", UserWarning, stacklevel=6)


def _need_metal() -> None:
    """Raise errors.UnavailableError with the reason if Metal work cannot be profiled here."""
    problem = metal_problem()
    if problem is not None:
        raise errors.UnavailableError(f"the Metal profiler is unavailable because {problem}")
