# SPDX-License-Identifier: Apache-2.0
"""exposed_stages: the time of a step by stage and rank, without any clock in common (arXiv 2606.06751).

Each rank measures its own stages. C[r, s] is the sum of its stages up to s, F[s] the greatest of them over ranks. The
growth F[s] - F[s-1] is the time for which stage s held up the step; it is charged to the rank that attains F[s]. The
growths add up to the step of the slowest rank exactly. This routes, it does not prove a cause.
"""

from __future__ import annotations

from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

__all__ = ["ExposedStages", "exposed_stages"]

Array: TypeAlias = NDArray[Any]


class ExposedStages(NamedTuple):
    """exposed_ns: by (step, stage). rank: index of the rank that it is charged to, by (step, stage)."""

    exposed_ns: Array
    rank: Array


def exposed_stages(stage_ns: Array) -> ExposedStages:
    """Return what each stage costs. stage_ns: duration in ns, >= 0, by (rank, step, stage). Any thread.

    exposed_ns sums over stages to the greatest step time over ranks, exactly for integers.
    """
    reached = np.cumsum(stage_ns, axis=2)
    furthest = reached.max(axis=0)
    return ExposedStages(np.diff(furthest, axis=1, prepend=0), reached.argmax(axis=0))
