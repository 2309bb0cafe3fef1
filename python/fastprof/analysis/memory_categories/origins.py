# SPDX-License-Identifier: Apache-2.0
"""Origins of memory (ranges and Python stack around an allocation): the peak, leaks and temporaries by origin."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from fastprof.analysis.memory_categories.kinds import Category
from fastprof.analysis.memory_categories.profile import MemoryProfile
from fastprof.analysis.memory_categories.totals import LiveStorage, category_totals, live_at
from fastprof.analysis.memory_origin import OUTSIDE, Origin, origin_around
from fastprof.base import errors
from fastprof.base.device_type import is_device
from fastprof.model.table import EventKind

__all__ = [
    "Leak",
    "Origin",
    "PeakPart",
    "explain_peak",
    "leaks",
    "longest_lived_temporaries",
    "origin_of",
]

# Categories of memory that is expected to stay: neither leaks nor temporaries.
_LASTING = frozenset({Category.PARAMETER, Category.GRADIENT, Category.OPTIMIZER_STATE})


def origin_of(profile: MemoryProfile, storage: int) -> Origin:
    """Return the origin of a storage's allocation; empty if it was allocated before the session."""
    row = profile.storages[storage].row
    if row < 0:
        return Origin()
    around = profile.parents[row]
    return origin_around(profile.table, around) if around >= 0 else Origin((OUTSIDE,))


@dataclass(frozen=True)
class PeakPart:
    """Part of the memory in use at a device's peak: of one category, from one origin."""

    device: str
    category: Category | None
    origin: Origin
    size_bytes: int
    count: int


def explain_peak(profile: MemoryProfile, device: str | None = None) -> list[PeakPart]:
    """Return what the peak of a device consists of, largest first.

    device: "cuda:0", or "cuda" for all devices of that type; default: every device in turn.
    """
    found = []
    for totals in category_totals(profile):
        if not is_device(totals.device, device):
            continue
        live = live_at(profile, totals.device, int(totals.time_ns[totals.peak]))
        found += _parts(profile, totals.device, live)
    return found


def _parts(profile: MemoryProfile, device: str, live: Iterable[LiveStorage]) -> list[PeakPart]:
    sums: dict[tuple[Category | None, Origin], list[int]] = defaultdict(list)
    for one in live:
        sums[one.category, origin_of(profile, one.storage)].append(one.size_bytes)
    parts = [
        PeakPart(device, category, origin, sum(sizes), len(sizes))
        for (category, origin), sizes in sums.items()
    ]
    return sorted(parts, key=lambda part: -part.size_bytes)


@dataclass(frozen=True)
class Leak:
    """Memory from one origin that outlived the steps after its allocation.

    steps: numbers of the steps in which it was allocated.
    """

    origin: Origin
    size_bytes: int
    count: int
    steps: tuple[int, ...]


def leaks(profile: MemoryProfile, steps: int = 1) -> list[Leak]:
    """Return what was allocated in a step and not freed within `steps` steps after it, largest first.

    Steps are the ranges "ProfilerStep#k" that profile.step() records under a schedule. Without such ranges,
    they are the training steps found in the data flow, numbered from 0. Parameters, gradients and optimizer
    state are left out, because they are expected to stay. Raises errors.ValueError unless 1 <= steps and the
    recording has more steps than that.
    """
    if steps < 1:
        raise errors.ValueError(f"invalid steps: {steps}. Pass 1 or more.")
    bounds = _step_bounds(profile)
    if len(bounds) <= steps:
        raise errors.ValueError(
            f"the recording has {len(bounds)} steps: leaks over {steps} steps need more than that. Record "
            "more steps, with a schedule and profile.step() if it is not training."
        )
    sums: dict[Origin, list[tuple[int, int]]] = defaultdict(list)
    for storage in profile.storages:
        if storage.created_ns is None or profile.category(storage.index, 0) in _LASTING:
            continue
        for i, (number, begin, end) in enumerate(bounds[: len(bounds) - steps]):
            if begin <= storage.created_ns < end:
                limit = bounds[i + steps][2]
                if storage.destroyed_ns is None or storage.destroyed_ns > limit:
                    sums[origin_of(profile, storage.index)].append((storage.size_bytes, number))
                break
    found = [
        Leak(
            origin, sum(size for size, _ in parts), len(parts), tuple(sorted({n for _, n in parts}))
        )
        for origin, parts in sums.items()
    ]
    return sorted(found, key=lambda leak: -leak.size_bytes)


def _step_bounds(profile: MemoryProfile) -> list[tuple[int, int, int]]:
    table = profile.table
    number_of = {}
    for site, name in enumerate(table.sites.names):
        number = name.removeprefix("ProfilerStep#")
        if number != name and number.isdecimal():
            number_of[site] = int(number)
    kind = table.column("kind")
    found = [
        (number_of[int(site)], int(table.start_ns[row]), int(table.end_ns[row]))
        for row, site in enumerate(table.column("site").tolist())
        if site in number_of and kind[row] == EventKind.RANGE
    ]
    if not found:
        return [(k, begin, end) for k, (begin, end) in enumerate(profile.training_steps)]
    return sorted(found, key=lambda step: step[1])


def longest_lived_temporaries(
    profile: MemoryProfile, count: int = 20
) -> Sequence[tuple[int, int, Origin]]:
    """Return (storage, life in ns, origin) of storages that were allocated and freed, largest bytes times life first.

    Parameters, gradients and optimizer state are left out. count: maximum number of storages.
    """
    lives = [
        (storage.size_bytes * (storage.destroyed_ns - storage.created_ns), storage)
        for storage in profile.storages
        if storage.created_ns is not None and storage.destroyed_ns is not None
        and profile.category(storage.index, 0) not in _LASTING
    ]  # fmt: skip
    lives.sort(key=lambda one: (-one[0], one[1].index))
    return [
        (s.index, (s.destroyed_ns or 0) - (s.created_ns or 0), origin_of(profile, s.index))
        for _, s in lives[:count]
    ]
