# SPDX-License-Identifier: Apache-2.0
"""Samples: the shares of functions, lines, modules and threads in the samples of a recording, with their errors."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from fastprof.base import errors
from fastprof.base.formatting import first_rows
from fastprof.base.short_paths import shorten_paths
from fastprof.base.text_style import cut_to_width
from fastprof.base.visible_text import visible_text
from fastprof.model.sampled_stacks import NO_FRAME, WAITS, Array, SampledStacks
from fastprof.model.task_steps import TaskSteps

__all__ = ["GilUse", "SampleShare", "Samples", "wilson_interval"]

_Z_95 = 1.959964
_BY = ("function", "line", "module", "thread", "wait", "task")


class GilUse(NamedTuple):
    """How long a thread, or the functions that were innermost, held the GIL and waited for it, in s.

    held_s: with the GIL. blocked_s: of that, in a system call, off the CPU: all other threads wait meanwhile.
    waited_s: for the GIL. Each is a number of samples times the time between two of them.
    """

    name: str
    file: str
    line: int
    held_s: float
    blocked_s: float
    waited_s: float


class SampleShare(NamedTuple):
    """One function, line, module or thread. Counts are numbers of samples; shares are of all samples of the mode.

    own: with it as the innermost frame. total: with it anywhere on the stack. (For a thread both are its samples.)
    own_low, own_high, total_low, total_high: the bounds of the 95 % confidence intervals of the shares, of as many
    independent samples as there were ticks, if there were more samples.
    """

    name: str
    file: str
    line: int
    own: int
    total: int
    own_share: float
    own_low: float
    own_high: float
    total_share: float
    total_low: float
    total_high: float


def wilson_interval(count: float, size: float) -> tuple[float, float]:
    """Return the bounds of Wilson's 95 % interval for a share of `count` in `size` independent samples.

    Source: E. B. Wilson, J. Am. Stat. Assoc. 22 (1927) 209. (0, 1) for no samples.
    """
    if size == 0:
        return 0.0, 1.0
    share, z2 = count / size, _Z_95**2
    middle = share + z2 / (2 * size)
    half = _Z_95 * math.sqrt(share * (1 - share) / size + z2 / (4 * size * size))
    scale = 1 + z2 / size
    return max(0.0, (middle - half) / scale), min(1.0, (middle + half) / scale)


class Samples:
    """The samples of a recording; `str()` is a table by function. Any thread.

    samples = prof.samples()
    print(samples.table("line", mode="cpu"))
    samples.shares("function")[0].own_share
    """

    def __init__(self, stacks: SampledStacks, tasks: Callable[[], TaskSteps] | None = None) -> None:
        self.stacks = stacks
        self._tasks = tasks

    def __len__(self) -> int:
        """Return the number of samples of all threads, without those of suspended tasks."""
        return int(self.stacks.count[self.stacks.in_mode("wall")].sum())

    def __str__(self) -> str:
        return self.table()

    def shares(
        self, by: str = "function", *, mode: str = "wall", thread: str | None = None
    ) -> list[SampleShare]:
        """Return the shares, the largest own share first.

        by: "function", "line", "module" (a file), "thread" or "wait" (what a thread that did not run waited for:
        "waits for the GIL", "lock", "poll", "read", "write", "sleep", ...; Linux) or "task" (the asyncio or trio task
        that ran, by the name of the task or of its coroutine). mode: "wall": all samples; "cpu": of
        threads that ran on a CPU; "off_cpu": of those that did not; "gil": of threads that held the GIL;
        "gil_wait": of threads that waited for it; "exception": of threads that raise an exception or handle one;
        "awaits": where suspended tasks wait, if the profile was made with sample_tasks=True, by function, line, module
        or task. thread: name of the threads to count; None: all.
        Raises errors.ValueError for other values.
        """
        stacks = self.stacks
        if by not in _BY:
            raise errors.ValueError(f"cannot group samples by {by!r}. Use one of {', '.join(_BY)}.")
        kept = stacks.in_mode(mode)
        if thread is not None:
            wanted = [i for i, (_, name) in enumerate(stacks.threads) if name == thread]
            if not wanted:
                raise errors.ValueError(
                    f"no samples of a thread {thread!r}. Threads are in shares(by='thread')."
                )
            kept = kept & np.isin(stacks.thread, wanted)
        own: dict[tuple[str, str, int], int] = {}
        total: dict[tuple[str, str, int], int] = {}
        if by == "task" and mode == "awaits":
            by = "thread"
        if by == "task":
            if self._tasks is None:
                raise errors.ValueError("these samples have no tasks. Use prof.samples().")
            steps = self._tasks()
            for name, count in zip(steps.names, steps.counts(stacks, kept), strict=True):
                if count:
                    own[name, "", 0] = total[name, "", 0] = count
        elif by in ("thread", "wait"):
            key = self._key(by)
            numbers = stacks.thread if by == "thread" else stacks.wait
            sums = np.bincount(numbers[kept], weights=stacks.count[kept])
            for number, count in enumerate(sums.astype(np.int64).tolist()):
                if count:
                    each = key(number)
                    own[each] = total[each] = own.get(each, 0) + count
        else:
            key = self._key(by)
            nodes = stacks.node[kept] + 1
            sums = np.bincount(nodes, weights=stacks.count[kept], minlength=1).astype(np.int64)
            if sums[0]:
                own[NO_FRAME, "", 0] = total[NO_FRAME, "", 0] = int(sums[0])
            for number in np.flatnonzero(sums[1:]).tolist():
                count = int(sums[number + 1])
                innermost = key(number)
                own[innermost] = own.get(innermost, 0) + count
                for each in {key(node) for node in stacks.path(number)}:
                    total[each] = total.get(each, 0) + count
        size = int(stacks.count[kept].sum())
        # Threads and tasks that are sampled in one tick may all wait for the same: only ticks are independent.
        independent = 0 if by == "thread" else min(size, _ticks(stacks, kept, mode))
        found = [
            _share(each, own.get(each, 0), count, size, independent)
            for each, count in total.items()
        ]
        return sorted(found, key=lambda s: (-s.own, -s.total, s.file, s.line, s.name))

    def gil(self, by: str = "thread") -> list[GilUse]:
        """Return who held the GIL and who waited for it, the longest holder first.

        by: "thread", or "function" or "line" of the innermost frame. Waiting is told from other waits where /proc has
        the system call of a thread and the GIL is the main interpreter's; else waited_s and blocked_s are 0.
        Raises errors.ValueError for another `by`.
        """
        if by not in ("thread", "function", "line"):
            raise errors.ValueError(f"cannot group by {by!r}. Use thread, function or line.")
        stacks, key = self.stacks, self._key(by)
        ticks = stacks.counts.get("ticks", 0)
        # A sample also stands for the ticks that were missed.
        seen = ticks / (ticks + stacks.counts.get("missed_ticks", 0)) if ticks else 1.0
        period_s = stacks.period_ns / 1e9 / seen
        found: dict[tuple[str, str, int], list[float]] = {}
        masks = (stacks.in_mode("gil"), stacks.is_blocked_holder, stacks.in_mode("gil_wait"))
        for column, mask in enumerate(masks):
            numbers = (stacks.thread if by == "thread" else stacks.node)[mask].tolist()
            for number, count in zip(numbers, stacks.count[mask].tolist(), strict=True):
                each = key(number) if number >= 0 else (NO_FRAME, "", 0)
                found.setdefault(each, [0.0, 0.0, 0.0])[column] += count * period_s
        uses = [GilUse(*each, *times) for each, times in found.items()]
        return sorted(uses, key=lambda use: (-use.held_s, -use.waited_s, use.name))

    def gil_table(self, by: str = "thread", *, row_limit: int = 20) -> str:
        """Return gil() as text. row_limit: number of rows, -1 for all."""
        uses = self.gil(by)
        shown = first_rows(uses, row_limit)
        lines = [f"{'held':>9}  {'blocked':>9}  {'waited':>9}  {by}"]
        for use in shown:
            times = (use.held_s, use.blocked_s, use.waited_s)
            place = _place(SampleShare(*use[:3], *[0] * 2, *[0.0] * 6))
            lines.append("  ".join([*(f"{time_s:8.3f}s" for time_s in times), place]))
        if len(shown) < len(uses):
            lines.append(f"({len(uses) - len(shown)} more)")
        return "\n".join(lines)

    def _key(self, by: str) -> Callable[[int], tuple[str, str, int]]:
        stacks = self.stacks
        if by == "thread":
            return lambda number: (stacks.threads[number][1], "", 0)
        if by == "wait":
            return lambda number: (WAITS[number], "", 0)
        known: dict[int, tuple[str, str, int]] = {}

        def key(node: int) -> tuple[str, str, int]:
            each = known.get(node)
            if each is None:
                name, file, first_line = stacks.codes[int(stacks.code[node])]
                if by == "module":
                    each = (file, file, 0)
                else:
                    each = (name, file, int(stacks.line[node]) if by == "line" else first_line)
                known[node] = each
            return each

        return key

    def table(
        self,
        by: str = "function",
        *,
        mode: str = "wall",
        thread: str | None = None,
        row_limit: int = 20,
        max_width: int = 120,
    ) -> str:
        """Return the largest shares as text, with what is missing below. Arguments: see shares().

        row_limit: number of rows, -1 for all. max_width: of a line, in characters; 0: as long as they are.
        """
        shares = self.shares(by, mode=mode, thread=thread)
        shown = first_rows(shares, row_limit)
        lines = [f"{'own %':>7}  {'95 % interval':>13}  {'total %':>7}  {'samples':>8}  {by}"]
        for each in shown:
            interval = f"{100 * each.own_low:.1f} to {100 * each.own_high:.1f}"
            own, total = 100 * each.own_share, 100 * each.total_share
            place = visible_text(_place(each))
            row = f"{own:7.1f}  {interval:>13}  {total:7.1f}  {each.own:8d}  {place}"
            lines.append(cut_to_width(row, max_width).rstrip() if max_width else row)
        if not shares:
            lines.append("no such samples")
        if len(shown) < len(shares):
            lines.append(f"({len(shares) - len(shown)} more)")
        return "\n".join([*lines, *self._facts(mode)])

    def _facts(self, mode: str) -> list[str]:
        stacks, counts = self.stacks, self.stacks.counts
        size = int(stacks.count[stacks.in_mode(mode)].sum())
        text = f"{size} samples of {stacks.threads_size} threads at {stacks.hz:g} Hz"
        text += "" if mode == "wall" else f", mode {mode}, of {len(self)}"
        if mode == "awaits":
            text = f"{size} samples of suspended tasks at {stacks.tasks_hz:g} Hz"
        facts = [text]
        for name, what in (
            ("missed_ticks", "ticks missed"),
            ("torn_samples", "samples torn (the stack changed while it was copied)"),
            ("samples_without_room", "samples not kept"),
            ("samples_without_native", "samples without native frames"),
            ("task_samples_left_out", "samples of tasks not kept (more than 1000 at a time)"),
        ):
            if counts.get(name):
                facts.append(f"{counts[name]} {what}")
        return ["; ".join(facts)]


def _place(share: SampleShare) -> str:
    if not share.file:
        return share.name
    if share.name == share.file:
        return shorten_paths(f"{share.file}(1): x").removesuffix("(1): x")
    if not share.line:  # a native function, and its library
        return f"{share.name} ({share.file.rsplit('/', 1)[-1]})"
    return shorten_paths(f"{share.file}({share.line}): {share.name}")


def _ticks(stacks: SampledStacks, kept: Array, mode: str) -> int:
    """Return the number of ticks in which there are samples of the runs `kept`."""
    if not kept.any():
        return 0
    of_tasks = mode == "awaits"
    period_ns = 1e9 / ((of_tasks and stacks.tasks_hz) or stacks.hz)
    order = np.argsort(stacks.first_ns[kept], kind="stable")
    first = stacks.first_ns[kept][order]
    until = np.maximum.accumulate(stacks.last_ns[kept][order])
    apart = np.ones(
        len(first), np.bool_
    )  # from those before; samples of a tick are some us from each other
    apart[1:] = first[1:] > until[:-1] + period_ns / 2
    begins = np.flatnonzero(apart)
    length_ns = until[np.append(begins[1:], len(first)) - 1] - first[begins]
    ticks = len(begins) + int(np.rint(length_ns / period_ns).sum())
    known = stacks.counts.get("task_ticks" if of_tasks else "ticks", 0)  # fewer if some were missed
    return min(ticks, known) if known else ticks


def _share(
    key: tuple[str, str, int], own: int, total: int, size: int, independent: int
) -> SampleShare:
    own_share, total_share = (own / size, total / size) if size else (0.0, 0.0)
    if not independent:  # the number of a thread's samples is no random one
        bounds = (own_share, own_share, total_share, total_share)
    else:
        bounds = (
            *wilson_interval(own_share * independent, independent),
            *wilson_interval(total_share * independent, independent),
        )
    return SampleShare(*key, own, total, own_share, *bounds[:2], total_share, *bounds[2:])
