# SPDX-License-Identifier: Apache-2.0
"""collective_kinds: the collectives of a job by kind and group: calls, size, time, waiting and bandwidth.

Bandwidths are those of nccl-tests (https://github.com/NVIDIA/nccl-tests/blob/master/doc/PERFORMANCE.md). That of the
algorithm is S / t: S is the larger of a rank's buffers, before or after. That of the bus is what the busiest link
carries: 2(n-1)/n of it for an all-reduce, (n-1)/n where a rank keeps its own part, else all of it. t is the shortest
duration over the ranks of the call, so that waiting for the last rank is not counted.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from fastprof.base.distinct import distinct
from fastprof.ranks.matching import Matched
from fastprof.ranks.peer_calls import PAIRED, pair_of

__all__ = ["bus_factor", "collective_kinds", "members_of"]

Array: TypeAlias = NDArray[Any]
_KEEPS_A_PART = ("all_gather", "reduce_scatter", "all_to_all", "gather", "scatter")
_WHOLE = ("broadcast", "reduce", "send", "recv")
_GROWS = ("all_gather", "gather")  # S is what all ranks contribute


def bus_factor(kind: str, ranks: Array) -> Array | None:
    """Return the bus bandwidth by the algorithm's, for numbers of ranks; None for a kind without any, as a barrier."""
    size = np.maximum(ranks, 1)
    if kind == "all_reduce":
        return np.asarray(2 * (size - 1) / size)
    if kind in _KEEPS_A_PART:
        return np.asarray((size - 1) / size)
    return np.ones(len(size)) if kind in _WHOLE else None


def members_of(group: str, known: Mapping[str, list[int]]) -> list[int] | None:
    """Return the ranks of a group by its name, or by the list that follows it; None if neither says them."""
    name, _, ranks = group.partition(" ")
    if name in known:
        return known[name]
    try:
        found = json.loads(ranks)
    except ValueError:
        return None  # cut by the recorder: "[0, 1, ..., 7]"
    return found if isinstance(found, list) and all(type(n) is int for n in found) else None


def collective_kinds(matched: Matched, groups: Mapping[str, list[int]]) -> list[dict[str, Any]]:
    """Return a dict of each kind and group, those with the most waiting first. groups: ranks by name.

    least_ns, size_bytes: medians over calls; waiting_ns: median over calls of the mean over ranks. ranks: of the group.
    algorithm_bytes_per_s, bus_bytes_per_s: medians over the calls whose size is known; None if no call's is.
    """
    if not len(matched):
        return []
    first = matched.first
    count = np.diff(np.append(first, len(matched)))
    least = np.minimum.reduceat(matched.end - matched.start, first)
    size = np.maximum.reduceat(matched.size_bytes, first)
    waiting = np.add.reduceat(matched.wait_ns, first) / count
    # Sends and receives count by group, whichever ranks they are of.
    pairs = [pair_of(name) for name in matched.groups]
    base = [
        name if pair is None else pair.group
        for name, pair in zip(matched.groups, pairs, strict=True)
    ]
    code_of = np.array([base.index(name) for name in base], np.int64)
    kind_code = matched.kind.copy()
    if matched.paired.any():
        kind_code[matched.paired] = next(n for n, k in enumerate(matched.kinds) if k in PAIRED)
    pair = (code_of[matched.group] * len(matched.kinds) + kind_code)[first]
    found = []
    for code in distinct(pair).tolist():
        rows = np.flatnonzero(pair == code)
        kind, group = (
            matched.kinds[code % len(matched.kinds)],
            base[code // len(matched.kinds)],
        )
        kind = "send, recv" if kind in PAIRED else kind
        members = members_of(group, groups)
        members = None if kind == "send, recv" else members
        ranks = count[rows] if members is None else np.full(len(rows), len(members))
        found.append(
            {
                "kind": kind,
                "group": group,
                "ranks": int(ranks.max()),
                "calls": len(rows),
                "size_bytes": int(np.median(size[rows])),
                "least_ns": int(np.median(least[rows])),
                "waiting_ns": int(np.median(waiting[rows])),
                **_bandwidths(kind, ranks, size[rows], least[rows]),
            }
        )  # fmt: skip
    return sorted(found, key=lambda each: -each["waiting_ns"] * each["calls"])


def _bandwidths(kind: str, ranks: Array, size: Array, least_ns: Array) -> dict[str, float | None]:
    known = (size >= 0) & (least_ns > 0)
    factor = bus_factor(kind, ranks[known])
    if factor is None or not known.any():
        return {"algorithm_bytes_per_s": None, "bus_bytes_per_s": None}
    whole = size[known] * (ranks[known] if kind in _GROWS else 1)
    algorithm = whole / least_ns[known] * 1e9
    return {
        "algorithm_bytes_per_s": float(np.median(algorithm)),
        "bus_bytes_per_s": float(np.median(algorithm * factor)),
    }
