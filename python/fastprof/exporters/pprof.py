# SPDX-License-Identifier: Apache-2.0
"""pprof: stacks with counts and self times, for `go tool pprof`, Pyroscope, Parca, speedscope.

Format: profile.proto of https://github.com/google/pprof, gzipped as its documentation asks. A sample is a distinct
stack of one thread with two values, the number of its ranges ("calls") and their self time ("time", in nanoseconds);
the thread's name is its label `thread`.
"""

from __future__ import annotations

import gzip
import os
import warnings
from typing import Any

import numpy as np

from fastprof.base.atomic_file import atomic_binary
from fastprof.exporters.range_stacks import DEEPER, sums_below
from fastprof.model.name_paths import NamePaths, name_paths
from fastprof.model.sites import SAMPLE_CATEGORIES, Site
from fastprof.model.table import EventTable
from fastprof.model.tree import EventTree

__all__ = ["export_pprof", "pprof_profile"]

# Fields of Profile; ValueType, Sample, Label, Location, Line and Function have theirs where they are written.
_SAMPLE_TYPE, _SAMPLE, _LOCATION, _FUNCTION, _TEXT = 1, 2, 4, 5, 6
_TIME_NS, _DURATION_NS, _DEFAULT_TYPE = 9, 10, 14
_MAX_STACK_BYTES = 64 << 20
_LOCATION_BYTES = 3


def export_pprof(table: EventTable | EventTree, path: str | os.PathLike[str]) -> None:
    """Write pprof_profile(), gzipped whatever the suffix. Raises errors.IoError if the file cannot be written."""
    data = pprof_profile(table)
    if not os.fsdecode(path).endswith(".gz"):  # those are gzipped by the file
        data = gzip.compress(data, mtime=0)
    with atomic_binary(path) as file:
        file.write(data)


def pprof_profile(table: EventTable | EventTree) -> bytes:
    """Return a table's stacks of ranges, calls and samples as a pprof profile, not gzipped.

    Async rows and device activities have no self time, and are left out. Any thread.
    """
    tree = table if isinstance(table, EventTree) else EventTree.by_thread(table)
    table = tree.table
    texts: dict[str, int] = {"": 0}  # text 0 must be empty

    def text(value: str) -> int:
        return texts.setdefault(value, len(texts))

    profile = bytearray()
    for kind, unit in (("calls", "count"), ("time", "nanoseconds")):
        _message(profile, _SAMPLE_TYPE, _numbers((1, text(kind)), (2, text(unit))))
    sites = tree.take(table.column("site")).astype(np.int64)
    threads, heads = np.unique(tree.take(table.recording_thread), return_inverse=True)
    named = {track.id: track.name for track in table.tracks}
    labels = [
        _numbers((1, text("thread")), (2, text(named.get(each) or f"thread {each}")))
        for each in threads.tolist()
    ]
    paths = name_paths(tree, sites, max(len(table.sites), 1), heads.reshape(-1).astype(np.int64))
    limit = _deepest_level(paths)
    deeper = [sums_below(paths, limit, values) for values in (paths.count, paths.self_ns)]
    # Location and function of a site have its number plus 1: 0 is none. One more stands for what is deeper.
    more = _varint(len(table.sites) + 1)
    parent, location, head = paths.parent.tolist(), (paths.name + 1).tolist(), paths.head.tolist()
    stacks: dict[int, bytes] = {}  # by path: ids of locations, innermost first

    def add_sample(stack: bytes, count: int, self_ns: int, label: bytes) -> None:
        sample = bytearray()
        _message(sample, 1, stack)
        _message(sample, 2, _varint(count) + _varint(self_ns))
        _message(sample, 3, label)
        _message(profile, _SAMPLE, sample)

    for path in np.flatnonzero(paths.depth <= limit).tolist():
        stacks[path] = _varint(location[path]) + stacks.get(parent[path], b"")
        label = labels[head[path]]
        add_sample(stacks[path], int(paths.count[path]), int(paths.self_ns[path]), label)
        if deeper[0][path]:
            add_sample(more + stacks[path], int(deeper[0][path]), int(deeper[1][path]), label)
    places = [(n, table.sites.names[n], table.sites[n]) for n in np.unique(sites).tolist()]
    if deeper[0].any():
        places.append((len(table.sites), DEEPER, Site(DEEPER)))
    for number, name, site in places:
        line = _numbers((1, number + 1), (2, site.line))
        _message(profile, _LOCATION, _numbers((1, number + 1)) + _field(4, 2) + _sized(line))
        # Names of samples have the place, which readers of pprof add themselves.
        if site.category in SAMPLE_CATEGORIES and site.function:
            name = site.function
        function = ((1, number + 1), (2, text(name)), (3, text(name)), (4, text(site.file)))
        _message(profile, _FUNCTION, _numbers(*function, (5, site.line)))
    profile += _numbers((_TIME_NS, table.t0_ns), (_DURATION_NS, max(table.t1_ns - table.t0_ns, 0)))
    profile += _numbers((_DEFAULT_TYPE, text("time")))
    for each in texts:
        _message(profile, _TEXT, each.encode("utf-8", "replace"))
    return bytes(profile)


def _deepest_level(paths: NamePaths) -> int:
    """Return the deepest level whose stacks are written in full. A stack repeats the one it is called from."""
    if not len(paths):
        return 0
    levels = np.bincount(paths.depth)
    written = np.cumsum(levels * np.arange(1, len(levels) + 1) * _LOCATION_BYTES)
    limit = max(int(np.searchsorted(written, _MAX_STACK_BYTES, "right")) - 1, 0)
    if limit + 1 < len(levels):
        warnings.warn(
            f"ranges nest up to {len(levels)} deep; those below level {limit + 1} are summed as {DEEPER!r}, "
            "because stacks repeat their callers",
            stacklevel=4,
        )
    return limit


def _varint(value: int) -> bytes:
    value &= (1 << 64) - 1
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def _field(number: int, wire: int) -> bytes:
    return _varint(number << 3 | wire)


def _sized(data: Any) -> bytes:
    return _varint(len(data)) + bytes(data)


def _numbers(*members: tuple[int, int]) -> bytes:
    return b"".join(_field(number, 0) + _varint(value) for number, value in members)


def _message(out: bytearray, number: int, data: Any) -> None:
    out += _field(number, 2) + _sized(data)
