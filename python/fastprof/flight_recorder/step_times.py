# SPDX-License-Identifier: Apache-2.0
"""StepTimes: durations of steps, as a running median and as quantiles over the whole run, in fixed memory."""

from __future__ import annotations

import math
from bisect import insort
from collections import deque

__all__ = ["StepTimes"]

_RECENT = 101  # steps of the running median; odd, so that it is one of them
_WARM = 20  # steps before there is a median
# Each bucket's bounds differ by 2 %, so that a quantile is within 1 %: DDSketch's logarithmic mapping (Masson, Rim and
# Lee, "DDSketch", VLDB 2019, section 2.2).
_GAMMA = 1.02
_PER_E = 1 / math.log(_GAMMA)


class StepTimes:
    """Durations of steps in seconds. Not thread-safe: the caller holds a lock."""

    def __init__(self) -> None:
        self.count = 0
        self.total_s = 0.0
        self.max_s = 0.0
        self._recent: deque[float] = deque()
        self._sorted: list[float] = []
        self._buckets: dict[int, int] = {}

    def add(self, duration_s: float) -> None:
        """Count a step."""
        self.count += 1
        self.total_s += duration_s
        self.max_s = max(self.max_s, duration_s)
        if len(self._recent) == _RECENT:
            self._sorted.remove(self._recent.popleft())
        self._recent.append(duration_s)
        insort(self._sorted, duration_s)
        key = math.ceil(math.log(max(duration_s, 1e-9)) * _PER_E)
        self._buckets[key] = self._buckets.get(key, 0) + 1

    def median_s(self) -> float | None:
        """Return the median of the last 101 steps; None before there are 20."""
        return self._sorted[len(self._sorted) // 2] if len(self._sorted) >= _WARM else None

    def quantile_s(self, q: float) -> float:
        """Return the quantile q (0 to 1) of all steps, within 1 % of the exact one; 0.0 without a step."""
        rank, seen = q * (self.count - 1), 0
        for key in sorted(self._buckets):
            seen += self._buckets[key]
            if seen > rank:
                return min(2 * math.exp(key / _PER_E) / (1 + _GAMMA), self.max_s)
        return 0.0
