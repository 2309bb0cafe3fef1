# SPDX-License-Identifier: Apache-2.0
"""load() of traces by the C++ writers: every row of hand-written and random captures is read, in both formats."""

from __future__ import annotations

import json
import random
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from trace_readers import traces_of_cpp

import fastprof
from fastprof import errors
from fastprof.model.table import EventFlag, EventKind, EventTable

COUNT = 40
NAMES = ["rich", *(f"random{i}" for i in range(COUNT))]
_, _, MARK, COUNTER, FLOW_BEGIN, FLOW_END, MEMORY, OUT_OF_MEMORY, MEMBERSHIP = EventKind
UNNAMED = (FLOW_BEGIN, FLOW_END, MEMORY, OUT_OF_MEMORY)  # the formats have other names for these
STATE = ~int(EventFlag.DETAIL)  # whether a row has details is not compared

Key = tuple[Any, ...]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return traces_of_cpp(tmp_path_factory.mktemp("traces"), COUNT)


def key(kind: int, start: int, end: int, flags: int, name: str) -> Key:
    finished = bool(flags & EventFlag.FINISHED) or kind > 1
    shown = "" if kind in UNNAMED else name
    return (kind, start, end if finished else None, flags & STATE if kind <= 1 else 0, shown)


def expected_tracks(folder: Path, name: str) -> Counter[frozenset[tuple[Key, int]]]:
    """Return the rows of each track as a multiset, and the number of equal tracks."""
    tracks: dict[int, Counter[Key]] = {}
    for row in json.loads((folder / f"{name}.rows.json").read_text()):
        kind = row["kind"]
        if kind == MEMBERSHIP or (kind in (COUNTER, FLOW_BEGIN, FLOW_END) and not row["payload"]):
            continue
        shown = row["name"]
        if (
            kind in (MEMORY, OUT_OF_MEMORY) and not row["payload"]
        ):  # its size is unknown: only a mark
            kind, shown = MARK, "[memory]" if kind == MEMORY else "[OutOfMemory]"
        entry = key(kind, row["start"], row["end"], row["flags"], shown)
        tracks.setdefault(row["track"], Counter())[entry] += 1
    return Counter(frozenset(rows.items()) for rows in tracks.values())


def loaded_tracks(table: EventTable) -> Counter[frozenset[tuple[Key, int]]]:
    tracks: dict[int, Counter[Key]] = {}
    columns = (table.column(n).tolist() for n in ("kind", "start_ns", "end_ns", "flags", "track"))
    for row, (kind, start, end, flags, track) in enumerate(zip(*columns, strict=True)):
        name = table.name(row).encode("utf-8", "replace").decode()
        tracks.setdefault(track, Counter())[key(kind, start, end, flags, name)] += 1
    return Counter(frozenset(rows.items()) for rows in tracks.values())


@pytest.mark.parametrize("suffix", ["json", "pftrace"])
@pytest.mark.parametrize("name", NAMES)
def test_every_row_comes_back(folder: Path, name: str, suffix: str) -> None:
    table = fastprof.load(folder / f"{name}.{suffix}")
    assert table.metadata["format"] == {"json": "chrome", "pftrace": "perfetto"}[suffix]
    assert loaded_tracks(table) == expected_tracks(folder, name)


@pytest.mark.parametrize("name", NAMES)
def test_both_formats_and_our_own_agree(folder: Path, tmp_path: Path, name: str) -> None:
    chrome, perfetto = (fastprof.load(folder / f"{name}.{s}") for s in ("json", "pftrace"))
    assert (chrome.t0_ns, chrome.t1_ns) == (perfetto.t0_ns, perfetto.t1_ns)
    assert chrome.dropped == perfetto.dropped
    assert chrome.process_name == perfetto.process_name
    fastprof.save(perfetto, tmp_path / "t")
    assert loaded_tracks(fastprof.load(tmp_path / "t")) == loaded_tracks(chrome)


@pytest.mark.parametrize("name", ["rich", "random0", "random6"])
def test_damaged_perfetto_traces_never_escape_format_error(
    folder: Path, tmp_path: Path, name: str
) -> None:
    data = (folder / f"{name}.pftrace").read_bytes()
    rng = random.Random(31)
    path = tmp_path / "t"
    messages: list[str] = []
    for trial in range(200):
        damaged = bytearray(data)
        if trial % 4 == 0:
            del damaged[rng.randrange(1, len(data)) :]
        for _ in range(rng.randrange(1, 5)):
            damaged[rng.randrange(1, len(damaged))] = rng.randrange(256)
        path.write_bytes(bytes(damaged))
        try:
            table = fastprof.load(path)
            fastprof.EventList.from_table(table).key_averages().table()
        except errors.FormatError as error:
            messages.append(str(error))
    assert len(messages) > 50 and all("offset" in message for message in messages)
