# SPDX-License-Identifier: Apache-2.0
"""Interval, Kernel and MemRecordsAcc: small value types of events."""

from __future__ import annotations

import bisect
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

__all__ = ["Interval", "Kernel", "MemRecordsAcc", "TimedKernel"]


class Interval:
    """A time range in microseconds (floats or ints, as given). Any thread may read it."""

    __slots__ = ("end", "start")

    def __init__(self, start: float, end: float) -> None:
        self.start = start
        self.end = end

    def elapsed_us(self) -> float:
        """Return the length in microseconds."""
        return self.end - self.start

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Interval):
            return NotImplemented
        return (self.start, self.end) == (other.start, other.end)

    def __hash__(self) -> int:
        return hash((self.start, self.end))

    def __repr__(self) -> str:
        return f"Interval(start={self.start}, end={self.end})"


class Kernel(NamedTuple):
    """A device activity launched by a CPU event; duration in microseconds. Any thread may read it."""

    name: str
    device: int
    duration: float

    @property
    def start_us(self) -> float | None:
        """Start on the device, us; None if unknown."""
        return None


class TimedKernel(Kernel):
    """A Kernel with a known start. Equal to a Kernel of the same fields."""

    def __new__(cls, name: str, device: int, duration: float, start_us: float) -> TimedKernel:
        kernel = super().__new__(cls, name, device, duration)
        kernel._start_us = start_us
        return kernel

    _start_us: float

    @property
    def start_us(self) -> float | None:
        """Start on the device, us."""
        return self._start_us

    def __reduce__(self) -> tuple[Any, ...]:
        return TimedKernel, (*self, self._start_us)


class MemRecordsAcc:
    """Index of memory records by start time. Records are tuples whose first item has start_ns().

    One instance may be used by several threads.
    """

    def __init__(self, mem_records: Sequence[Any]) -> None:
        ordered = sorted((record[0].start_ns(), i) for i, record in enumerate(mem_records))
        self._mem_records = mem_records
        self._start_nses = [start for start, _ in ordered]
        self._indices = [index for _, index in ordered]

    def in_interval(self, start_ns: int, end_ns: int) -> Iterator[Any]:
        """Yield the records that start in [start_ns, end_ns], both ends included, by start."""
        first = bisect.bisect_left(self._start_nses, start_ns)
        last = bisect.bisect_right(self._start_nses, end_ns)
        for index in self._indices[first:last]:
            yield self._mem_records[index]
