# SPDX-License-Identifier: Apache-2.0
"""align_clocks: the clock of each rank against that of one rank, with a certificate of its error.

No rank leaves a synchronising collective before the last one has entered it: on true time, each enter precedes each
exit of the same call. Two ranks' calls therefore bound the difference of their clocks from both sides. In windows of
10 s it is taken as a line, so that offset and drift are found together. All lines within the bounds are the
certificate. The estimate is a line through the differences of exits, which are close in time, kept inside of it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from fastprof.ranks.line_bounds import feasible_lines, range_at
from fastprof.ranks.matching import Matched

__all__ = ["RankClock", "align_clocks", "backward_pairs", "violations"]

Array: TypeAlias = NDArray[Any]
_SYNCHRONISING = ("all_reduce", "all_gather", "reduce_scatter", "all_to_all", "barrier")
_WINDOW_NS = 10_000_000_000
_LEAST_CALLS = 4  # of a window
_STEEPEST = 500e-6  # drift of two clocks against each other
_SAME_CLOCK_NS = 1_000_000  # difference of two processes' REALTIME - MONOTONIC that shows one clock of one machine


@dataclass
class _Window:
    """begin, end: of the rank's clock, ns. value, slope: estimate. lines: certificate. x counts from begin."""

    begin: int
    end: int
    value: float
    slope: float
    lines: Array


@dataclass
class RankClock:
    """A rank's clock against that of `reference`. how: "reference", "host" (the same clock) or "collectives".

    parent: the rank whose clock the windows compare with, None for the reference and the ranks of its host.
    """

    rank: int
    how: str
    error_ns: int
    windows: list[_Window]
    parent: RankClock | None

    def ahead_ns(self, times: Any) -> Array:
        """Return by how much the clock is ahead of the reference's at times of it (Unix ns), int64 ns."""
        when = np.asarray(times, np.int64)
        if not self.windows:
            return np.zeros(when.shape, np.int64)
        found = np.zeros(when.shape)
        for window, chosen in self._chosen(when):
            x = (when[chosen] - window.begin).astype(np.float64)
            low, high = range_at(window.lines, x)
            found[chosen] = np.clip(window.value + window.slope * x, low, high)
        own = np.rint(found).astype(np.int64)
        return own if self.parent is None else own + self.parent.ahead_ns(when - own)

    def bounds_ns(self, times: Any) -> tuple[Array, Array]:
        """Return the certificate at times of the clock: least and greatest value of ahead_ns(), int64 ns."""
        when = np.asarray(times, np.int64)
        low, high = np.zeros(when.shape), np.zeros(when.shape)
        for window, chosen in self._chosen(when):
            low[chosen], high[chosen] = range_at(
                window.lines, (when[chosen] - window.begin).astype(np.float64)
            )
        least, most = np.floor(low).astype(np.int64), np.ceil(high).astype(np.int64)
        if self.parent is not None:
            below, _ = self.parent.bounds_ns(when - most)
            _, above = self.parent.bounds_ns(when - least)
            least, most = least + below, most + above
        return least - self.error_ns, most + self.error_ns

    def to_reference(self, times: Any) -> Array:
        """Return times of this clock as times of the reference's, int64 ns."""
        when = np.asarray(times, np.int64)
        corrected: Array = when - self.ahead_ns(when)
        return corrected

    def _chosen(self, when: Array) -> list[tuple[_Window, Array]]:
        begins = np.array([each.begin for each in self.windows[1:]], np.int64)
        at = np.searchsorted(begins, when, side="right")
        return [(window, at == n) for n, window in enumerate(self.windows)]


def align_clocks(
    matched: Matched, manifests: Mapping[int, Mapping[str, Any]]
) -> dict[int, RankClock]:
    """Return the clock of each rank that can be compared with the first one's, by rank.

    manifests: by rank. Ranks without a path of common collectives to the first, or whose clock steps so that no
    line fits, are absent. Any thread.
    """
    ranks = sorted(manifests)
    if not ranks:
        return {}
    chosen = _synchronising(matched)
    rows_of = {rank: np.flatnonzero(chosen & (matched.rank == rank)) for rank in ranks}
    found = {ranks[0]: RankClock(ranks[0], "reference", 0, [], None)}
    waiting = ranks[1:]
    sources = [ranks[0]]
    while sources and waiting:
        source = sources.pop(0)
        left = []
        for rank in waiting:
            clock = _same_host(found[source], rank, manifests) or _by_calls(
                matched, found[source], rank, rows_of
            )
            if clock is None:
                left.append(rank)
                continue
            found[rank] = clock
            sources.append(rank)
        waiting = left
    return found


def violations(matched: Matched, clocks: Mapping[int, RankClock]) -> int:
    """Return the number of synchronising calls in which, on corrected time, a rank enters after another one left."""
    if not len(matched):
        return 0
    enter, leave = matched.start.copy(), matched.end.copy()
    usable = _synchronising(matched) & np.isin(matched.rank, list(clocks))
    for rank, clock in clocks.items():
        rows = np.flatnonzero(matched.rank == rank)
        enter[rows], leave[rows] = (clock.to_reference(each[rows]) for each in (enter, leave))
    calls = int(matched.call[-1]) + 1
    latest = np.full(calls, np.iinfo(np.int64).min)
    earliest = np.full(calls, np.iinfo(np.int64).max)
    np.maximum.at(latest, matched.call[usable], enter[usable])
    np.minimum.at(earliest, matched.call[usable], leave[usable])
    return int((latest > earliest).sum())


def backward_pairs(matched: Matched, clocks: Mapping[int, RankClock]) -> Array:
    """Return the calls whose receive ended before its send began, whatever the clocks' error: they are no pairs."""
    usable = matched.paired & np.isin(matched.rank, list(clocks))
    receives = np.array([*(kind == "recv" for kind in matched.kinds), False], np.bool_)[
        matched.kind
    ]
    calls = int(matched.call[-1]) + 1 if len(matched) else 0
    begin = np.full(calls, np.iinfo(np.int64).min)  # earliest of the send
    end = np.full(calls, np.iinfo(np.int64).max)  # latest of the receive
    for rank, clock in clocks.items():
        own = usable & (matched.rank == rank)
        sent, came = own & ~receives, own & receives
        begin[matched.call[sent]] = matched.start[sent] - clock.bounds_ns(matched.start[sent])[1]
        end[matched.call[came]] = matched.end[came] - clock.bounds_ns(matched.end[came])[0]
    return np.flatnonzero(end < begin)


def _synchronising(matched: Matched) -> Array:
    """Return a mask of the rows whose call no rank leaves before the last has entered."""
    by_kind = np.array([*(kind in _SYNCHRONISING for kind in matched.kinds), False], np.bool_)
    found: Array = by_kind[matched.kind]
    return found


def _same_host(
    source: RankClock, rank: int, manifests: Mapping[int, Mapping[str, Any]]
) -> RankClock | None:
    """Return the clock of a rank on the machine of `source`, whose processes read one CLOCK_REALTIME; else None."""
    one, other = manifests[source.rank], manifests[rank]
    if not one.get("host") or one["host"] != other.get("host"):
        return None
    for when in ("start", "end"):
        pairs = [each.get("clock", {}).get(when) for each in (one, other)]
        if not all(isinstance(pair, dict) for pair in pairs):
            if when == "start":  # of a profile that was written by ranks.write()
                continue
            return None
        differences = [pair["realtime_ns"] - pair["monotonic_ns"] for pair in pairs if pair]
        if abs(differences[0] - differences[1]) > _SAME_CLOCK_NS:
            return None
    error = sum(int(each.get("clock_error_ns", 0)) for each in (one, other))
    windows, parent = source.windows, source.parent
    return RankClock(rank, "host", source.error_ns + error, windows, parent)


def _by_calls(
    matched: Matched, source: RankClock, rank: int, rows_of: Mapping[int, Array]
) -> RankClock | None:
    ours, theirs = rows_of[rank], rows_of[source.rank]
    _, at, other = np.intersect1d(
        matched.call[ours], matched.call[theirs], assume_unique=True, return_indices=True
    )
    if len(at) < _LEAST_CALLS:
        return None
    ours, theirs = ours[at], theirs[other]
    order = np.argsort(matched.end[ours], kind="stable")
    ours, theirs = ours[order], theirs[order]
    times = (matched.start[ours], matched.end[ours], matched.start[theirs], matched.end[theirs])
    windows = _windows(times, 0, len(ours))
    if not windows:
        return None
    parent = None if source.how == "reference" else source
    return RankClock(rank, "collectives", 0, windows, parent)


def _windows(times: Sequence[Array], low: int, high: int) -> list[_Window]:
    """Return the windows of calls low to high, split until a line fits each; [] if none fits."""
    leave = times[1]
    found: list[_Window] = []
    at = low
    while at < high:
        end = int(np.searchsorted(leave, leave[at] + _WINDOW_NS, side="right"))
        end = high if high - end < _LEAST_CALLS else end
        if end - at < _LEAST_CALLS:  # a gap in the recording
            at = max(end, at + 1)
            continue
        part = _fitted(times, at, end)
        if not part:
            return []
        found += part
        at = end
    return found


def _fitted(times: Sequence[Array], low: int, high: int) -> list[_Window]:
    enter, leave, their_enter, their_leave = (each[low:high] for each in times)
    begin = int(enter[0])
    lines = feasible_lines(
        (enter - begin).astype(np.float64), (enter - their_leave).astype(np.float64),
        (leave - begin).astype(np.float64), (leave - their_enter).astype(np.float64), _STEEPEST,
    )  # fmt: skip
    if not len(lines):
        middle = (low + high) // 2
        if middle - low < _LEAST_CALLS:
            return []
        first, second = _fitted(times, low, middle), _fitted(times, middle, high)
        return first + second if first and second else []
    value, slope = _line(
        (leave - begin).astype(np.float64), (leave - their_leave).astype(np.float64)
    )
    return [_Window(begin, int(leave[-1]), value, slope, lines)]


def _line(x: Array, y: Array) -> tuple[float, float]:
    """Return value and slope of a line near most points: least squares, weights of outliers reduced."""
    weight = np.ones(len(x))
    value, slope = float(np.median(y)), 0.0
    for _ in range(12):
        total = weight.sum()
        mx, my = (weight * x).sum() / total, (weight * y).sum() / total
        spread = (weight * (x - mx) ** 2).sum()
        slope = float((weight * (x - mx) * (y - my)).sum() / spread) if spread > 0 else 0.0
        value = float(my - slope * mx)
        rest = np.abs(y - value - slope * x)
        weight = 1 / np.maximum(rest, max(float(np.median(rest)), 1.0))
    return value, slope
