# SPDX-License-Identifier: Apache-2.0
"""Clocks of a Perfetto trace: convert timestamps of any clock to the trace's clock.

Format: clock_snapshot.proto and docs/concepts/clock-sync.md of the Perfetto project. The trace's
clock is the primary clock of a snapshot, or CLOCK_BOOTTIME by default.
"""

from __future__ import annotations

from bisect import bisect_right

from fastprof.base import errors
from fastprof.importers.perfetto_fields import Clock, ClockSnapshot
from fastprof.importers.protobuf import by_number, message, signed, whole

__all__ = ["Clocks"]

_BOOTTIME = 6
_FIRST_OF_SEQUENCE, _FIRST_GLOBAL = 64, 128  # ids in between are local to one sequence
_MOST_CLOCKS = 64
_CLOCKS = frozenset({ClockSnapshot.CLOCKS})
_ENDLESS = 1 << 70
_INT64 = 1 << 63


class _Domain:
    """Encoding of one clock's timestamps, and its last conversion."""

    __slots__ = ("end_ns", "first_ns", "is_incremental", "last_ns", "offset_ns", "unit_ns", "until")

    def __init__(self, unit_ns: int, is_incremental: bool) -> None:
        self.unit_ns = unit_ns
        self.is_incremental = is_incremental
        self.last_ns = 0
        # The last conversion: valid from first_ns to end_ns, until the next snapshot.
        self.until = -1
        self.first_ns = self.end_ns = self.offset_ns = 0


class Clocks:
    """The clock snapshots read so far, and the conversions that follow from them.

    later: the clocks at the end of the same trace, for timestamps before their clock's first
    snapshot. Snapshots of the same set of clocks form a group, whose readings are parallel lists; a
    conversion is a path of groups.
    """

    def __init__(self, later: Clocks | None = None) -> None:
        self.trace_clock = _BOOTTIME
        self.is_used = False  # a timestamp was converted, so trace_clock must not change any more
        self.refused = 0
        self._later = later
        self._domains: dict[int, _Domain] = {}
        self._groups: dict[frozenset[int], dict[int, list[int]]] = {}
        self._groups_of: dict[int, list[dict[int, list[int]]]] = {}
        self._backward: set[int] = set()  # clocks that ran backward: no conversion starts from them
        self._paths: dict[int, list[tuple[dict[int, list[int]], int]] | None] = {}
        self._snapshots = 0

    @staticmethod
    def key(sequence: int, clock: int) -> int:
        """Return a clock's key, unique in the trace; 0 for timestamps of the trace's own clock."""
        if _FIRST_OF_SEQUENCE <= clock < _FIRST_GLOBAL:
            return sequence << 32 | clock
        return clock & 0xFFFFFFFF

    def __len__(self) -> int:
        """Return the number of known clocks, for estimates of memory."""
        return len(self._domains)

    def add_snapshot(self, sequence: int, data: bytes) -> None:
        """Add a ClockSnapshot. One that contradicts an earlier one is counted in `refused`."""
        snapshot = by_number(data, _CLOCKS)
        entries = snapshot.get(ClockSnapshot.CLOCKS, [])
        if len(entries) > _MOST_CLOCKS:
            raise errors.FormatError(
                f"a clock snapshot has {len(entries)} clocks, more than the limit of {_MOST_CLOCKS}"
            )
        primary = whole(snapshot.get(ClockSnapshot.PRIMARY_TRACE_CLOCK, 0))
        if primary and not self.is_used:
            self.trace_clock = primary
        readings: dict[int, int] = {}
        domains: dict[int, _Domain] = {}
        for entry in entries:
            clock = by_number(message(entry))
            key = self.key(sequence, whole(clock.get(Clock.CLOCK_ID, 0)))
            unit_ns = whole(clock.get(Clock.UNIT_MULTIPLIER_NS, 0)) or 1
            domain = _Domain(unit_ns, bool(clock.get(Clock.IS_INCREMENTAL, 0)))
            known = self._domains.get(key, domain)
            differs = (known.unit_ns, known.is_incremental) != (unit_ns, domain.is_incremental)
            if differs or key in readings:
                self.refused += 1
                return
            readings[key] = signed(clock.get(Clock.TIMESTAMP, 0)) * unit_ns
            domains[key] = known
        for key, domain in domains.items():
            self._domains[key] = domain
            domain.last_ns = readings[key]
        self._append(readings)

    def _append(self, readings: dict[int, int]) -> None:
        if len(readings) > 1:
            clocks = frozenset(readings)
            group = self._groups.get(clocks)
            if group is None:
                group = self._groups[clocks] = {key: [] for key in readings}
                for key in readings:
                    self._groups_of.setdefault(key, []).append(group)
            for key, reading in readings.items():
                if group[key] and reading < group[key][-1]:
                    self._backward.add(key)
                group[key].append(reading)
        self._paths.clear()
        self._snapshots += 1

    def set_last(self, key: int, last_ns: int) -> None:
        """Set the last time in ns of an incremental clock."""
        domain = self._domains.get(key)
        if domain is not None:
            domain.last_ns = last_ns

    def conversion(self, key: int) -> tuple[int, bool, int, int, int, int] | None:
        """Return the conversion of a clock's timestamps near the last one; None if the scanner cannot apply it.

        (unit in ns, whether the clock is incremental, its last time in ns, first ns and end ns of the times to
        which the offset applies, offset in ns to the trace's clock).
        """
        domain = self._domains.get(key)
        unit_ns, counts, last_ns = 1, False, 0
        if domain is not None:
            unit_ns, counts, last_ns = domain.unit_ns, domain.is_incremental, domain.last_ns
        if not (0 < unit_ns < _INT64 and -_INT64 <= last_ns < _INT64):
            return None
        if key == self.trace_clock or (domain is None and key == 0):
            return unit_ns, counts, last_ns, -_INT64, _INT64 - 1, 0
        if domain is None or domain.until != self._snapshots or abs(domain.offset_ns) >= _INT64:
            return None
        first_ns = max(domain.first_ns, -_INT64)
        end_ns = min(domain.end_ns, _INT64 - 1)
        return unit_ns, counts, last_ns, first_ns, end_ns, domain.offset_ns

    def trace_time_ns(self, key: int, timestamp: int) -> int | None:
        """Convert a timestamp of a clock to ns of the trace's clock; None if no snapshot relates them.

        Advances an incremental clock, so each timestamp must be converted exactly once.
        """
        time_ns = timestamp if timestamp < 1 << 63 else timestamp - (1 << 64)
        domain = self._domains.get(key)
        if domain is None:
            return time_ns if key == 0 else self.at(key, time_ns)
        if domain.unit_ns != 1:
            time_ns *= domain.unit_ns
        if domain.is_incremental:
            domain.last_ns = time_ns = time_ns + domain.last_ns
        if domain.first_ns <= time_ns < domain.end_ns and domain.until == self._snapshots:
            return time_ns + domain.offset_ns
        return self.at(key, time_ns)

    def at(self, key: int, time_ns: int) -> int | None:
        """Convert an absolute time in ns of a clock to the trace's clock; None if no snapshot relates them."""
        if key == self.trace_clock:
            return time_ns
        path = self._paths[key] if key in self._paths else self._find_path(key)
        if path is None:
            return None if self._later is None else self._later.at(key, time_ns)
        self.is_used = True
        source, result = key, time_ns
        for group, target in path:
            readings = group[source]
            # Use the latest snapshot not after the time, or else the first.
            index = max(bisect_right(readings, result) - 1, 0)
            if len(path) == 1:
                domain = self._domains[key]
                domain.until = self._snapshots
                domain.first_ns = readings[index] if index else -_ENDLESS
                domain.end_ns = readings[index + 1] if index + 1 < len(readings) else _ENDLESS
                domain.offset_ns = group[target][index] - readings[index]
            result += group[target][index] - readings[index]
            source = target
        return result

    def _find_path(self, key: int) -> list[tuple[dict[int, list[int]], int]] | None:
        """Return the shortest path of groups from a clock to the trace's clock; None without one."""
        came: dict[int, tuple[int, dict[int, list[int]]]] = {}
        level = [key]
        while level and self.trace_clock not in came:
            below: list[int] = []
            for clock in level:
                if clock in self._backward:
                    continue
                for group in self._groups_of.get(clock, ()):
                    for target in group:
                        if target not in came and target != key:
                            came[target] = (clock, group)
                            below.append(target)
            level = below
        path: list[tuple[dict[int, list[int]], int]] | None = None
        if self.trace_clock in came:
            path, clock = [], self.trace_clock
            while clock != key:
                source, group = came[clock]
                path.insert(0, (group, clock))
                clock = source
        self._paths[key] = path
        return path
