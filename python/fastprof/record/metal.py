# SPDX-License-Identifier: Apache-2.0
"""The Metal profiler: signposts for Instruments, statistics of Metal work, captures of it for Xcode.

The functions of torch.mps.profiler, and what PyTorch's MPSProfiler has for C++ and the environment alone. They
profile all command buffers that the process commits, PyTorch's among them, and work that native code profiles
by itself. docs/metal.md says what to do with the results.
"""

from __future__ import annotations

import enum
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

    profile_id: unique among graphs, or among the others. completed_count: runs whose times are in the sums.
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
        """GPU time of a run on average."""
        return self.gpu_ms / self.run_count if self.run_count else 0.0


@dataclass(frozen=True)
class FallbackStatistics:
    """Sums of one op that was computed on the CPU. copy_overhead_bytes: copied to the CPU and back."""

    profile_id: int
    op_name: str
    run_count: int
    cpu_ms: float
    copy_overhead_bytes: int


@dataclass(frozen=True)
class CopyStatistics:
    """Sums of the copies of one kind: "MPS to MPS", "MPS to CPU" or "CPU to MPS". Times in ms.

    scalar_count: copies of at most 8 bytes. memcpy_count: copies that the CPU made; scheduling_ms has their time.
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
    """What the Metal profiler has summed since it was first wanted.

    failed_count: command buffers that the GPU did not complete. pending_count: those that it has not completed yet.
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
    """Begin to make signposts of Metal work, which Instruments' template "Logging" shows.

    mode: "interval", "event", or "interval,event". An interval lasts from when the GPU may start until it has
    completed the work; an event is emitted at that end and shows the GPU's time. wait_until_completed: each
    commit waits for the GPU, so that intervals do not overlap. Raises errors.UnavailableError elsewhere than
    on macOS, errors.ValueError for another mode, errors.StateError if signposts are made already. Any thread.
    """
    _need_metal()
    _core.metal_start(mode, wait_until_completed)


def stop() -> None:
    """End what start() began. Raises errors.UnavailableError elsewhere than on macOS. Any thread."""
    _need_metal()
    _core.metal_stop()


@contextmanager
def profile(mode: str = "interval", wait_until_completed: bool = False) -> Iterator[None]:
    """Make signposts of the Metal work of a block. Parameters and errors are those of start().

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
    """Make a signpost interval of every range that begins in a block, on all threads; no profile is needed.

    Instruments then shows record_function() and annotated C++ code beside the GPU's work. Ops of PyTorch are not
    among them. Raises errors.UnavailableError elsewhere than on macOS, errors.StateError inside another such block.
    """
    _need_metal()
    _core.metal_start_ranges()
    try:
        yield
    finally:
        _core.metal_stop_ranges()


@contextmanager
def metal_capture(fname: str) -> Iterator[str]:
    """Capture the GPU work of a block into a document that Xcode opens; yield its path.

    fname: the file is "NNNN-FNAME.gputrace", NNNN counting captures; folders are kept in front. The process must
    have been started with MTL_CAPTURE_ENABLED=1. Raises errors.UnavailableError if it was not, elsewhere than on
    macOS, and if the system refuses; errors.StateError if a capture runs.
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
    """Return whether a capture runs."""
    return metal_problem() is None and _core.metal_is_capturing()


def log_options() -> LogOptions:
    """Return what is logged now. Raises errors.UnavailableError elsewhere than on macOS. Any thread."""
    _need_metal()
    return LogOptions(_core.metal_options()[2])


def set_log_options(options: LogOptions | int) -> None:
    """Replace what is logged: lines while work runs, tables when the process exits or receives SIGINT.

    The environment sets them at the start (FASTPROF_METAL_LOG_PROFILE_INFO or PYTORCH_MPS_LOG_PROFILE_INFO).
    Raises errors.UnavailableError elsewhere than on macOS, errors.ValueError for unknown bits. Any thread.
    """
    _need_metal()
    _core.metal_set_log_options(int(options))


def statistics(*, wait_s: float = 10.0) -> MetalStatistics:
    """Return the sums by operation, kind of copy and op that fell back to the CPU.

    They grow while something wants the work: log options, signposts or a profile. wait_s: how long to wait for
    work that has been committed, in seconds. Raises errors.UnavailableError elsewhere than on macOS. Any thread.
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

    options: which, of OPERATION_STATS, COPY_STATS and CPU_FALLBACK_STATS. wait_s and errors: as statistics().
    """
    _need_metal()
    if wait_s > 0:
        _core.metal_wait_for_pending(wait_s)
    return _core.metal_tables(int(options))


def _need_metal() -> None:
    """Raise errors.UnavailableError with the reason unless there is Metal here."""
    problem = metal_problem()
    if problem is not None:
        raise errors.UnavailableError(f"the Metal profiler is unavailable because {problem}")
