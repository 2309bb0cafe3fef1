# SPDX-License-Identifier: Apache-2.0
"""compare_jobs: what changed between two runs of a job, with bootstrap intervals, so that noise is no change.

Parts of steps and ranks are compared by the median over steps, names by their sum over ranks. Steps are drawn in
blocks, because neighbouring steps resemble each other. For names, ranks are drawn; these share the noise of the run, so
that a name's interval is widened by that of the step.
"""

from __future__ import annotations

from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from fastprof.base import errors
from fastprof.base.formatting import counted
from fastprof.ranks.job import Job

__all__ = ["Change", "compare_jobs"]

Array: TypeAlias = NDArray[Any]
_PARTS = ("duration_ns", "compute_ns", "communication_ns", "exposed_ns", "copies_ns", "idle_ns")
_DRAWS, _BLOCK, _LEAST_STEPS, _LEAST_RANKS = 2000, 4, 8, 4
_LEVEL = 0.999  # of an interval: a comparison consists of many
_LEAST_GROWTH = 0.01  # a smaller change is none, however certain
_LEAST_SHARE = 0.002  # of the step, before or after: what is shorter is left out


class Change(NamedTuple):
    """A time that was compared. kind: "part", "rank" or "name". what: which. before_ns, after_ns: in a step.

    low, high: interval of after / before with a confidence of 99.9 %. changed: whether it excludes all growths
    and reductions below 1 %.
    """

    kind: str
    what: str
    before_ns: int
    after_ns: int
    low: float
    high: float
    changed: bool


def compare_jobs(before: Job, after: Job) -> list[Change]:
    """Return what was compared: changes first, the largest first. The result for equal inputs is always the same.

    Raises errors.ValueError if a run has fewer than 8 steps that all of its ranks have. Any thread.

        for change in fastprof.ranks.compare(fastprof.ranks.open("old"), fastprof.ranks.open("new")):
            if change.changed:
                print(change.kind, change.what, change.after_ns - change.before_ns)
    """
    for job in (before, after):
        if len(job.complete_steps) < _LEAST_STEPS:
            raise errors.ValueError(
                f"cannot compare {job.folder}: all of its ranks have only"
                f" {counted(len(job.complete_steps), 'step')} in common, and a comparison needs {_LEAST_STEPS}."
                " Record more steps on each rank."
            )
    draw = np.random.default_rng(0)
    jobs = (before, after)
    found = []
    for name in (*_PARTS, "waiting_ns"):
        rows = [job.waiting_ns if name == "waiting_ns" else job.parts(name) for job in jobs]
        series = [_complete(each).mean(axis=0) for each in rows]
        found.append(_of_steps("part", name.removesuffix("_ns"), series, draw))
    own = [_complete(job.own_ns) for job in jobs]
    for rank in sorted(set(before.ranks) & set(after.ranks)):
        series = [rows[job.ranks.index(rank)] for rows, job in zip(own, jobs, strict=True)]
        found.append(_of_steps("rank", f"rank {rank}", series, draw))
    found += _of_names(jobs, draw, found[0])
    step = max(found[0].before_ns, found[0].after_ns)
    kept = [each for each in found if max(each.before_ns, each.after_ns) > _LEAST_SHARE * step]
    return sorted(kept, key=lambda each: (not each.changed, -abs(each.after_ns - each.before_ns)))


def _complete(rows: Array) -> Array:
    found: Array = rows[:, (rows >= 0).all(axis=0)]
    return found


def _of_steps(kind: str, what: str, series: list[Array], draw: np.random.Generator) -> Change:
    medians = []
    for values in series:
        size = len(values)
        block = min(_BLOCK, size)
        starts = draw.integers(0, size - block + 1, (_DRAWS, -(-size // block)))
        chosen = (starts[:, :, None] + np.arange(block)).reshape(_DRAWS, -1)[:, :size]
        medians.append(np.median(values[chosen], axis=1))
    before, after = (float(np.median(values)) for values in series)
    return _change(kind, what, before, after, medians[1] / np.maximum(medians[0], 1.0))


def _of_names(jobs: tuple[Job, Job], draw: np.random.Generator, step: Change) -> list[Change]:
    ratio_of_step = step.after_ns / max(step.before_ns, 1)
    wider = (step.low / ratio_of_step, step.high / ratio_of_step)
    spent = [job.name_ns for job in jobs]
    if min(len(job.ranks) for job in jobs) < _LEAST_RANKS:
        return []
    found = []
    for name in sorted(set(spent[0]) | set(spent[1])):
        means = []
        for values, job in zip(spent, jobs, strict=True):
            row = values.get(name, np.zeros(len(job.ranks)))
            means.append(
                (row.mean(), row[draw.integers(0, len(row), (_DRAWS, len(row)))].mean(axis=1))
            )
        (before, drawn_before), (after, drawn_after) = means
        ratio = drawn_after / np.maximum(drawn_before, 1.0)
        found.append(_change("name", name, float(before), float(after), ratio, wider))
    return found


def _change(
    kind: str,
    what: str,
    before: float,
    after: float,
    ratio: Array,
    wider: tuple[float, float] = (1.0, 1.0),
) -> Change:
    tail = (1 - _LEVEL) / 2
    quantiles = np.quantile(ratio, (tail, 1 - tail))
    low, high = (float(value * factor) for value, factor in zip(quantiles, wider, strict=True))
    changed = low > 1 + _LEAST_GROWTH or high < 1 - _LEAST_GROWTH
    return Change(kind, what, int(before), int(after), low, high, changed)
