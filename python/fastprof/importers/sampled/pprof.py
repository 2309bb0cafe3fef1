# SPDX-License-Identifier: Apache-2.0
"""pprof profiles (Go, gperftools, py-spy, jemalloc, ...).

Format: profile.proto of https://github.com/google/pprof. Of several values a sample, the first whose unit is a time is
read, else the profile's default. The samples have no times: callees are laid one after the other.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from fastprof.importers import protobuf
from fastprof.importers.sampled.stack_rows import NS_PER_UNIT, StackRows, StackTree, malformed
from fastprof.importers.sampled.whole_file import whole_file
from fastprof.importers.source import Source
from fastprof.model.table import EventTable

__all__ = ["read_pprof"]

_BYTES_A_BYTE = 8  # memory that the decoded messages take
_TYPE, _SAMPLE, _LOCATION, _FUNCTION, _TEXT = 1, 2, 4, 5, 6
_TIME_NS, _DEFAULT = 9, 14
_THREAD_LABELS = ("thread", "thread_name", "thread name", "tid", "thread_id", "thread id")


def read_pprof(source: Source) -> EventTable:
    """Return the rows of a pprof profile."""
    data = whole_file(source, _BYTES_A_BYTE)
    with malformed(source):
        repeated = frozenset((_TYPE, _SAMPLE, _LOCATION, _FUNCTION, _TEXT))
        return _read(StackRows(source, "pprof"), protobuf.by_number(data, repeated))


def _read(rows: StackRows, profile: dict[int, Any]) -> EventTable:
    texts = [protobuf.text(each) for each in profile.get(_TEXT, ())]
    types = [protobuf.by_number(each) for each in profile.get(_TYPE, ())]
    value, unit_ns, shown = _value(types, texts, profile.get(_DEFAULT, 0))
    functions = {
        each.get(1, 0): (texts[each.get(2, 0)], texts[each.get(4, 0)])
        for each in map(protobuf.by_number, profile.get(_FUNCTION, ()))
    }
    locations = {}
    for data in profile.get(_LOCATION, ()):
        location = protobuf.by_number(data, frozenset((4,)))
        lines = [protobuf.by_number(line) for line in location.get(4, ())]
        frames = [rows.frame(*functions[line.get(1, 0)], line.get(2, 0)) for line in lines]
        # Without lines, the profile knows the address only. Inlined calls are innermost first.
        locations[location.get(1, 0)] = frames or [rows.frame(f"0x{location.get(3, 0):x}")]
    threads: dict[str, tuple[StackTree, dict[int, int]]] = {}
    for data in profile.get(_SAMPLE, ()):
        sample = protobuf.by_number(data, frozenset((1, 2, 3)))
        tree, weights = threads.setdefault(
            _thread(sample.get(3, ()), texts), (StackTree(), defaultdict(int))
        )
        stack = [frame for each in protobuf.numbers(sample.get(1, [])) for frame in locations[each]]
        node = tree.path(reversed(stack))
        if node >= 0:
            amount = protobuf.signed(protobuf.numbers(sample[2])[value])
            weights[node] += max(amount, 0) * unit_ns
            rows.samples += 1
    origin_ns = protobuf.signed(profile.get(_TIME_NS, 0))
    for number, (name, (tree, weights)) in enumerate(threads.items()):
        rows.add_weights(rows.track(name, 0, number, key=name), tree, weights, origin_ns)
    return rows.finish(value=shown)


def _value(types: list[dict[int, Any]], texts: list[str], default: int) -> tuple[int, int, str]:
    """Return the index of the value to read, its unit in ns and its name."""
    named = [(texts[each.get(1, 0)], texts[each.get(2, 0)]) for each in types]
    for index, (name, unit) in enumerate(named):
        if unit in NS_PER_UNIT:
            return index, NS_PER_UNIT[unit], f"{name} ({unit})"
    for index, (name, unit) in enumerate(named):
        if default and name == texts[default]:
            return index, 1, f"{name} ({unit})"
    return len(named) - 1, 1, f"{named[-1][0]} ({named[-1][1]})"


def _thread(labels: Any, texts: list[str]) -> str:
    for data in labels:
        label = protobuf.by_number(data)
        if texts[label.get(1, 0)] in _THREAD_LABELS:
            return texts[label[2]] if label.get(2) else str(label.get(3, 0))
    return ""
