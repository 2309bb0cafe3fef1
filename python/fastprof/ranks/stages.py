# SPDX-License-Identifier: Apache-2.0
"""StageTimer: an always-on signal of which stage and rank of a job holds up its steps; a few numbers a step.

A rank reads its own clock where a stage begins. Every N steps the ranks exchange these numbers in the background, and
exposed_stages.py says what each stage costs and on which rank. No profile runs.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from fastprof.base import errors
from fastprof.base.formatting import format_time
from fastprof.ranks.exposed_stages import exposed_stages

__all__ = ["StageReport", "StageTimer", "Suspect"]

Array: TypeAlias = NDArray[Any]
_SYNC = "sync"
_STAGES = ("data", "forward", "backward", _SYNC, "optimizer")


class Suspect(NamedTuple):
    """A stage of a rank. more_ns: by which it is longer than that stage of the median rank, median over steps."""

    stage: str
    rank: int
    more_ns: int


@dataclass
class StageReport:
    """What the stages of some steps cost. exposed_ns: mean of a step, by stage; they add up to the slowest rank's step.

    first_step, steps: those that were measured. share: of the step, by stage. suspects: stages of ranks that are longer
    than elsewhere, most first; time of "sync" is no rank's own.
    """

    first_step: int
    steps: int
    exposed_ns: dict[str, int]
    share: dict[str, float] = field(default_factory=dict)
    suspects: list[Suspect] = field(default_factory=list)

    def __str__(self) -> str:
        total = sum(self.exposed_ns.values())
        parts = ", ".join(f"{stage} {100 * each:.0f} %" for stage, each in self.share.items())
        last = self.first_step + self.steps - 1
        text = f"steps {self.first_step} to {last}: {format_time(total / 1000)} a step: {parts}"
        if not self.suspects:
            return text
        stage, rank, more_ns = self.suspects[0]
        more = format_time(more_ns / 1000)
        return f"{text}; rank {rank} takes {more} more in {stage} than the median rank"


class StageTimer:
    """Measures the stages of each step on this rank; every so many steps, rank 0 has a report of all ranks.

    every: steps of a report. model: a torch module; the end of its first parameter's gradient, which is computed last,
    then divides "backward" from "sync", the wait for other ranks: without it, a rank that is slow in backward
    cannot be told from those that wait for it. stages: names in the order of a step. moved: a report is printed if a
    stage's share of the step differs by more from the last printed one's (0 prints all); report: called with each such
    report on rank 0, default: print to stderr.

    Make it on every rank at the same place: with torch.distributed initialised it makes a process group of gloo, which
    all ranks have to take part in. The exchange runs on gloo's threads, and its result is read in a later step().

    Raises errors.ValueError for `every` below 1 and for stages that occur twice. One thread.

        timer = fastprof.stages.StageTimer(every=100, model=model)
        for batch in loader:
            timer.enter("forward")
            loss = model(batch).mean()
            timer.enter("backward")
            loss.backward()
            timer.enter("optimizer")
            optimizer.step()
            timer.step()  # from here on, "data" of the next step
    """

    def __init__(
        self,
        *,
        every: int = 100,
        model: Any = None,
        stages: Sequence[str] = _STAGES,
        moved: float = 0.05,
        report: Callable[[StageReport], None] | None = None,
    ) -> None:
        if every < 1:
            raise errors.ValueError(
                f"every={every}. Use the number of steps of a report, 1 or more."
            )
        if len(set(stages)) != len(stages) or not stages:
            raise errors.ValueError(f"stages {list(stages)}: each stage needs a name of its own.")
        self.stages = tuple(stages)
        self.last: StageReport | None = None
        self._index = {name: at for at, name in enumerate(self.stages)}
        self._every, self._moved, self._report = every, moved, report
        self._rows = np.zeros((every, len(self.stages)), np.int64)
        self._row = [0] * len(self.stages)
        self._filled = self._steps = self._at = 0
        self._printed: StageReport | None = None
        self._pending: tuple[Any, list[Any], int] | None = None
        self._group: Any = None
        self._rank, self._size = 0, 1
        distributed = sys.modules.get("torch.distributed")
        if distributed is not None and distributed.is_available() and distributed.is_initialized():
            self._rank, self._size = distributed.get_rank(), distributed.get_world_size()
            self._group = distributed.new_group(backend="gloo")
        self._hook = self._watch(model) if model is not None else None
        self._last_ns = time.perf_counter_ns()

    def _watch(self, model: Any) -> Any:
        if not {"backward", _SYNC} <= set(self.stages):
            raise errors.ValueError(
                'model= needs the stages "backward" and "sync". Name them, or leave it out.'
            )
        first = next((each for each in model.parameters() if each.requires_grad), None)
        if first is None:
            raise errors.ValueError("the model has no parameter with a gradient. Leave model out.")
        backward = self._index["backward"]

        def computed(_: Any) -> None:
            if self._at == backward:
                self.enter(_SYNC)

        return first.register_post_accumulate_grad_hook(computed)

    def enter(self, stage: str) -> None:
        """Begin a stage; the time until now is that of the one before. Raises errors.ValueError for an unknown name."""
        at = self._index.get(stage)
        if at is None:
            raise errors.ValueError(
                f"unknown stage {stage!r}. Use one of {', '.join(self.stages)}."
            )
        now = time.perf_counter_ns()
        self._row[self._at] += now - self._last_ns
        self._at, self._last_ns = at, now

    def step(self) -> None:
        """End a step, and begin the first stage of the next."""
        self.enter(self.stages[0])
        self._rows[self._filled] = self._row
        self._row = [0] * len(self.stages)
        self._filled += 1
        self._steps += 1
        self._poll()
        if self._filled == self._every:
            self._filled = 0
            self._exchange()

    def close(self) -> None:
        """Wait for an exchange that runs, and remove the hook. All ranks call it, before the process group goes."""
        if self._pending is not None:
            self._pending[0].wait()
            self._poll()
        if self._hook is not None:
            self._hook.remove()
            self._hook = None

    def _exchange(self) -> None:
        first = self._steps - self._every
        if self._size == 1:
            self._answer(self._rows[None].copy(), first)
            return
        if self._pending is not None:  # slower than `every` steps: all ranks wait for it
            self._pending[0].wait()
            self._poll()
        torch: Any = sys.modules["torch"]
        mine = torch.from_numpy(self._rows.copy())
        all_ranks = [torch.empty_like(mine) for _ in range(self._size)]
        work = sys.modules["torch.distributed"].all_gather(
            all_ranks, mine, group=self._group, async_op=True
        )
        self._pending = (work, all_ranks, first)

    def _poll(self) -> None:
        if self._pending is None or not self._pending[0].is_completed():
            return
        _, rows, first = self._pending
        self._pending = None
        if self._rank == 0:
            self._answer(np.stack([each.numpy() for each in rows]), first)

    def _answer(self, stage_ns: Array, first: int) -> None:
        exposed = exposed_stages(stage_ns).exposed_ns.mean(axis=0)
        total = max(float(exposed.sum()), 1.0)
        more = np.median(stage_ns - np.median(stage_ns, axis=0), axis=1)  # by (rank, stage)
        suspects = [
            Suspect(name, rank, int(more[rank, at]))
            for rank in range(len(stage_ns))
            for at, name in enumerate(self.stages)
            if name != _SYNC and more[rank, at] > 0
        ]
        found = StageReport(
            first,
            len(stage_ns[0]),
            {name: int(ns) for name, ns in zip(self.stages, exposed, strict=True)},
            {name: float(ns) / total for name, ns in zip(self.stages, exposed, strict=True)},
            sorted(suspects, key=lambda each: -each.more_ns)[:5],
        )
        self.last = found
        before = self._printed
        if before is None or any(
            abs(found.share[name] - before.share[name]) > self._moved for name in self.stages
        ):
            self._printed = found
            if self._report is None:
                print(f"fastprof: {found}", file=sys.stderr, flush=True)
            else:
                self._report(found)
