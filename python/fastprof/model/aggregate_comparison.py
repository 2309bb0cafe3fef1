# SPDX-License-Identifier: Apache-2.0
"""Compare two aggregates name by name: by how much durations differ, and whether chance explains it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from fastprof.model.aggregates import Aggregates

__all__ = ["SIGNIFICANT_P", "Comparison", "compare_aggregates"]

SIGNIFICANT_P = 0.01


@dataclass(frozen=True)
class Comparison:
    """A name in both aggregates; each pair is (before, after). Times of one range are in ns; 0 where absent.

    p: probability of durations that differ so much if both were drawn from one distribution, by the rank-sum test of
    Mann and Whitney with correction for ties, adjusted for the number of names by Holm's method. It takes ranges as
    independent: of a few long runs, compare several windows. longer: probability that a range of B is longer than
    one of A, ties half (0.5: no difference). nan: the name is in one only.
    """

    name: str
    category: str
    count: tuple[int, int]
    total_ns: tuple[int, int]
    mean_ns: tuple[float, float]
    p50_ns: tuple[float, float]
    p99_ns: tuple[float, float]
    longer: float
    p: float

    @property
    def is_significant(self) -> bool:
        """Whether p is below SIGNIFICANT_P."""
        return self.p < SIGNIFICANT_P

    @property
    def growth_percent(self) -> float:
        """Growth of the mean in percent; nan if the name is in one only, or had no duration."""
        before, after = self.mean_ns
        return 100 * (after - before) / before if before > 0 and all(self.count) else math.nan


def compare_aggregates(before: Aggregates, after: Aggregates) -> list[Comparison]:
    """Return a Comparison for each name and category, largest change of the total first."""
    rows = [
        {key: row for row, key in enumerate(zip(each.names, each.categories, strict=True))}
        for each in (before, after)
    ]
    keys = list(dict.fromkeys([*rows[0], *rows[1]]))
    found = [_compare(key, (before, after), tuple(each.get(key) for each in rows)) for key in keys]
    # Holm: the i-th smallest p times the number of names not yet rejected, made monotonic.
    tested = sorted(
        (at for at, each in enumerate(found) if not math.isnan(each.p)), key=lambda at: found[at].p
    )
    worst = 0.0
    for number, at in enumerate(tested):
        worst = max(worst, min(1.0, found[at].p * (len(tested) - number)))
        found[at] = Comparison(**{**found[at].__dict__, "p": worst})
    return sorted(found, key=lambda each: (-abs(each.total_ns[1] - each.total_ns[0]), each.name))


def _compare(key: tuple[str, str], sides: tuple[Aggregates, Aggregates], rows: Any) -> Comparison:
    def pair(value: Any) -> Any:
        return tuple(
            0 if row is None else value(side, row) for side, row in zip(sides, rows, strict=True)
        )

    longer, p = math.nan, math.nan
    if None not in rows:
        longer, p = _rank_sum(*(_counts(side, row) for side, row in zip(sides, rows, strict=True)))
    return Comparison(
        *key,
        count=pair(lambda side, row: int(side.count[row])),
        total_ns=pair(lambda side, row: int(side.total_ns[row])),
        mean_ns=pair(lambda side, row: int(side.total_ns[row]) / int(side.count[row])),
        p50_ns=pair(lambda side, row: side.quantile_ns(row, 0.5)),
        p99_ns=pair(lambda side, row: side.quantile_ns(row, 0.99)),
        longer=longer,
        p=p,
    )


def _counts(side: Aggregates, row: int) -> dict[int, int]:
    bins, counts = side.histogram(row)
    return {-1: int(side.zeros[row]), **dict(zip(bins.tolist(), counts.tolist(), strict=True))}


def _rank_sum(a: dict[int, int], b: dict[int, int]) -> tuple[float, float]:
    """Return (probability that a value of b is greater, ties half; two-sided p) of values given as counts per bin."""
    bins = sorted({*a, *b})
    of_a = np.array([a.get(each, 0) for each in bins], np.float64)
    of_b = np.array([b.get(each, 0) for each in bins], np.float64)
    n_a, n_b = of_a.sum(), of_b.sum()
    n, ties = n_a + n_b, of_a + of_b
    u = float((of_b * (np.cumsum(of_a) - of_a / 2)).sum())
    longer = u / (n_a * n_b)
    untied = (n + 1) - float((ties**3 - ties).sum()) / (n * (n - 1))
    if untied <= 1e-9 * n:
        return longer, 1.0  # all in one bin
    deviation = math.sqrt(n_a * n_b / 12 * untied)
    return longer, math.erfc(abs(u - n_a * n_b / 2) / deviation / math.sqrt(2))
