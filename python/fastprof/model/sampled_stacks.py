# SPDX-License-Identifier: Apache-2.0
"""SampledStacks: what the sampler of a recording has found, as NumPy columns."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from fastprof.base import errors

__all__ = [
    "AWAITS_STATE",
    "GIL_WAIT",
    "MODES",
    "NO_FRAME",
    "ON_CPU",
    "WAITS",
    "Array",
    "SampledStacks",
]

Array: TypeAlias = NDArray[Any]

NO_FRAME = "(outside of Python code)"

_HAS_GIL, ON_CPU, _HAS_EXCEPTION = 1, 2, 8
_WAIT_SHIFT, GIL_WAIT, _AWAITS = 4, 1, 9
AWAITS_STATE = _AWAITS << _WAIT_SHIFT  # of the samples of a suspended task
# Which samples count -> (bits of their state that are looked at, their values).
MODES = {
    "wall": (0, 0),
    "cpu": (ON_CPU, ON_CPU),
    "off_cpu": (ON_CPU, 0),
    "gil": (_HAS_GIL, _HAS_GIL),
    "gil_wait": (0xF << _WAIT_SHIFT, GIL_WAIT << _WAIT_SHIFT),
    "exception": (_HAS_EXCEPTION, _HAS_EXCEPTION),
    "awaits": (0xF << _WAIT_SHIFT, _AWAITS << _WAIT_SHIFT),
}
# What a thread did, by the upper bits of its state (csrc/adapters/python/thread_waits.hpp).
WAITS = (
    *("(runs)", "waits for the GIL", "lock", "poll", "read", "write", "sleep"),
    *("waits for a process", "another system call", "suspended task"),
)


@dataclass(frozen=True)
class SampledStacks:
    """Samples of all threads. Immutable: any thread.

    A run is a number of consecutive samples of one thread with the same stack and state: first_ns and last_ns (Unix
    time), thread (index in `threads`), node (of the innermost frame; -1: the thread ran no Python), count, state.
    A node is a frame below its parent (-1: outermost): code (index in `codes`), line (0: unknown). Parents precede.
    codes: (name, file, first line; of a native function its library, and 0). threads: (id of the kernel, 0 if unknown;
    name); behind them rows of suspended tasks, sampled tasks_hz times a second. counts: ticks, missed_ticks,
    torn_samples, samples_without_room, sampler_cpu_ns, with native frames also native_stacks and
    samples_without_native, with tasks also task_ticks, torn_tasks, task_samples_left_out and task_sampler_cpu_ns.
    pids: the process of each thread; (): the one that recorded.
    """

    hz: float
    first_ns: Array
    last_ns: Array
    thread: Array
    node: Array
    count: Array
    state: Array
    parent: Array
    code: Array
    line: Array
    codes: tuple[tuple[str, str, int], ...]
    threads: tuple[tuple[int, str], ...]
    counts: Mapping[str, int]
    tasks_hz: float = 0.0
    pids: tuple[int, ...] = ()

    @property
    def period_ns(self) -> int:
        """Time between two ticks if none is missed (counts["missed_ticks"])."""
        return round(1e9 / self.hz)

    @property
    def threads_size(self) -> int:
        """Number of threads without the tasks."""
        tasks = self.thread[self.is_task]
        return len(self.threads) - (int(tasks.max() - tasks.min()) + 1 if len(tasks) else 0)

    def pid_of(self, thread: int, own: int) -> int:
        """Return the process of a thread. own: the one that recorded."""
        return self.pids[thread] if self.pids else own

    def with_process(self, other: SampledStacks, pid: int, own: int) -> SampledStacks:
        """Return the samples with those of another process, which are behind them. own: the one that recorded."""
        sizes = {"thread": len(self.threads), "node": len(self.parent)}
        sizes |= {"parent": len(self.parent), "code": len(self.codes)}
        columns: dict[str, Any] = {}
        for name in ("first_ns", "last_ns", "count", "state", "line", *sizes):
            column, added = getattr(self, name), getattr(other, name)
            moved = np.where(added < 0, added, added + sizes.get(name, 0))
            columns[name] = np.concatenate([column, moved.astype(column.dtype)])
        counts = {**other.counts, **self.counts}
        for name in self.counts.keys() & other.counts.keys():
            counts[name] = self.counts[name] + other.counts[name]
        return replace(
            self,
            codes=(*self.codes, *other.codes),
            threads=(*self.threads, *other.threads),
            pids=(*(self.pids or [own] * len(self.threads)), *[pid] * len(other.threads)),
            counts=counts,
            **columns,
        )

    def with_names(self, names: Mapping[int, str]) -> SampledStacks:
        """Return the samples with the names of threads that `names` has, by the kernel's id."""
        threads = tuple((tid, names.get(tid) or name) for tid, name in self.threads)
        return replace(self, threads=threads)

    def without_own_threads(self, is_own: Callable[[str], bool]) -> SampledStacks:
        """Return the samples of one process without its threads whose outermost frames are all in files of `is_own`.

        A thread without any frame that has the id of another one had not begun: until then a thread has the id of the
        one that made it. It is left out, too.
        """
        own: list[bool] = []  # of nodes, whose parents precede them
        for parent, code in zip(self.parent.tolist(), self.code.tolist(), strict=True):
            own.append(own[parent] if parent >= 0 else is_own(self.codes[code][1]))
        framed = self.node >= 0
        others = framed & ~np.array([*own, False], np.bool_)[self.node]
        has_frames, of_program = ({*self.thread[mask].tolist()} for mask in (framed, others))
        ids = {self.threads[thread][0] for thread in has_frames} - {0}
        return self.without_threads(
            [
                thread not in of_program if thread in has_frames else tid in ids
                for thread, (tid, _) in enumerate(self.threads)
            ]
        )

    def without_threads(self, leaves_out: Sequence[bool]) -> SampledStacks:
        """Return the samples without those of the threads for whose index `leaves_out` is true."""
        if not any(leaves_out):
            return self
        out = np.array(leaves_out, np.bool_)
        kept = ~out[self.thread]
        number = np.cumsum(~out) - 1
        columns: dict[str, Any] = {
            name: getattr(self, name)[kept]
            for name in ("first_ns", "last_ns", "node", "count", "state")
        }
        left = np.flatnonzero(~out).tolist()
        return replace(
            self,
            thread=number[self.thread[kept]].astype(self.thread.dtype),
            threads=tuple(self.threads[i] for i in left),
            pids=tuple(self.pids[i] for i in left) if self.pids else (),
            **columns,
        )

    def without_outermost(self, leaves_out: Callable[[str], bool]) -> SampledStacks:
        """Return the samples without the outermost frames for whose files `leaves_out` is true."""
        out = np.array([leaves_out(file) for _, file, _ in self.codes], np.bool_)
        gone = np.zeros(len(self.parent), np.bool_)
        for node, (parent, code) in enumerate(
            zip(self.parent.tolist(), self.code.tolist(), strict=True)
        ):
            gone[node] = out[code] and (parent < 0 or gone[parent])
        kept = ~gone
        number: Array = np.append(np.cumsum(kept) - 1, -1).astype(np.int32)
        number[:-1][gone] = -1
        return replace(
            self,
            node=number[self.node],
            parent=number[self.parent][kept],
            code=self.code[kept],
            line=self.line[kept],
        )

    def in_mode(self, mode: str) -> Array:
        """Return the mask of runs that count in a mode of MODES. Raises errors.ValueError for another one."""
        if mode not in MODES:
            raise errors.ValueError(f"unknown mode {mode!r}. Use one of {', '.join(MODES)}.")
        looked_at, value = MODES[mode]
        counts: Array = (self.state & looked_at) == value
        return counts if mode == "awaits" else counts & ~self.is_task

    @property
    def is_task(self) -> Array:
        """The mask of the runs of suspended tasks, which are no thread's: only the mode "awaits" counts them."""
        found: Array = self.wait == _AWAITS
        return found

    @property
    def wait(self) -> Array:
        """The index in WAITS of each run."""
        found: Array = np.minimum(self.state >> _WAIT_SHIFT, len(WAITS) - 1)
        return found

    @property
    def is_blocked_holder(self) -> Array:
        """The mask of runs in which a thread held the GIL, and waited in a system call."""
        held = (self.state & (_HAS_GIL | ON_CPU)) == _HAS_GIL
        blocked: Array = held & (self.wait > GIL_WAIT)
        return blocked

    def path(self, node: int) -> Iterator[int]:
        """Yield the nodes of a stack, innermost first."""
        while node >= 0:
            yield node
            node = int(self.parent[node])

    def by_function(self) -> tuple[Array, Array, Array]:
        """Return (parent, code) of the nodes without regard to lines, and the number of each node among them."""
        known: dict[tuple[int, int], int] = {}
        of_node = np.empty(len(self.parent), np.int32)
        nodes = zip(self.parent.tolist(), self.code.tolist(), strict=True)
        for node, (parent, code) in enumerate(nodes):
            above = int(of_node[parent]) if parent >= 0 else -1
            of_node[node] = known.setdefault((above, code), len(known))
        pairs = np.array(list(known), np.int32).reshape(-1, 2)
        return pairs[:, 0], pairs[:, 1], of_node
