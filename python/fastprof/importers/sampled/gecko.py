# SPDX-License-Identifier: Apache-2.0
"""Profiles of Firefox's profiler, also written by samply, perf (`perf script gecko`) and Python's own sampler.

Formats: https://github.com/firefox-devtools/profiler/tree/main/docs-developer: as Gecko writes them (tables with a
schema and rows), and processed (tables with a list for each column, texts of one thread or shared).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from fastprof.importers.sampled.stack_rows import StackRows, StackTree, malformed
from fastprof.importers.sampled.whole_file import json_object
from fastprof.importers.source import Source
from fastprof.model.sites import Site
from fastprof.model.table import EventTable

__all__ = ["read_gecko"]

_LOCATION = re.compile(r"(?P<name>.*?) \((?P<file>.+?):(?P<line>\d+)(?::\d+)?\)")


def read_gecko(source: Source) -> EventTable:
    """Return the rows of a profile: a track for each thread of each process."""
    document = json_object(source)
    rows = StackRows(source, "gecko")
    with malformed(source):
        # Frames of our own files have the category of their event as subcategory; see exporters/gecko.py.
        is_own = document.get("meta", {}).get("importedFrom") == "fastprof"
        categories = document["meta"]["categories"] if is_own else None
        _read_process(rows, document, document.get("shared") or {}, categories)
        return rows.finish(process_name=document.get("meta", {}).get("product") or "")


def _read_process(
    rows: StackRows, document: dict[str, Any], shared: dict[str, Any], categories: Any = None
) -> None:
    interval_ms = document.get("meta", {}).get("interval") or 1
    for number, thread in enumerate(document.get("threads", ())):
        pid, tid = (_whole(thread.get(name), number) for name in ("pid", "tid"))
        track = rows.track(thread.get("name", ""), pid, tid, key=(pid, tid, number))
        tables = {**shared, **thread}
        frames = _frames(rows, tables, categories)
        tree = StackTree()
        nodes: list[int] = []
        for prefix, frame in zip(*_columns(tables["stackTable"], "prefix", "frame"), strict=True):
            # A stack's caller has a lower number.
            nodes.append(tree.child(-1 if prefix is None else nodes[prefix], frames[frame]))
        samples = sorted(_samples(tables["samples"], nodes), key=lambda sample: sample[0])
        end_ns = samples[-1][0] + round(1e6 * interval_ms) if samples else 0
        rows.add_samples(track, tree, samples, end_ns)
    for process in document.get("processes", ()):
        _read_process(rows, process, process.get("shared") or {})


def _samples(samples: dict[str, Any], nodes: list[int]) -> Iterator[tuple[int, int]]:
    if "timeDeltas" in samples:
        at, times = 0.0, []
        for delta in samples["timeDeltas"]:
            at += delta
            times.append(at)
        (stacks,) = _columns(samples, "stack")
    else:
        stacks, times = _columns(samples, "stack", "time")
    for stack, at_ms in zip(stacks, times, strict=True):
        yield round(1e6 * at_ms), -1 if stack is None else nodes[stack]


def _frames(rows: StackRows, tables: dict[str, Any], categories: Any) -> list[int]:
    texts = tables.get("stringTable") or tables.get("stringArray") or ()
    table = tables["frameTable"]
    if "schema" in table:
        made = []
        for text in _columns(table, "location")[0]:
            place = _LOCATION.fullmatch(texts[text])
            if place:
                made.append(rows.frame(place["name"], place["file"], int(place["line"])))
            else:
                made.append(rows.frame(texts[text]))
        return made
    functions = tables["funcTable"]
    names = [texts[each] for each in functions["name"]]
    sources = tables.get("sources")
    if sources and "source" in functions:  # processed version 58 and later
        files = [
            None if each is None else sources["filename"][each] for each in functions["source"]
        ]
    else:
        files = functions.get("fileName") or [None] * len(names)
    lines = table.get("line") or [None] * len(table["func"])
    made = []
    for number, (func, line) in enumerate(zip(table["func"], lines, strict=True)):
        name, file = names[func], "" if files[func] is None else texts[files[func]]
        category = "Python"
        if categories is not None:
            category = categories[table["category"][number]]["name"]
        if category == "Range":
            shown = categories[table["category"][number]]["subcategories"]
            event = Site(name, shown[table["subcategory"][number]], file, line=line or 0)
            made.append(rows.builder.site_of(event))
        else:
            made.append(rows.frame(name, file, line or 0))
    return made


def _columns(table: dict[str, Any], *names: str) -> list[list[Any]]:
    """Return columns of a table: lists of their own, or places in the rows of a schema. Rows may be short."""
    if "schema" not in table:
        return [table[name] for name in names]
    places = [table["schema"][name] for name in names]
    return [[row[at] if at < len(row) else None for row in table["data"]] for at in places]


def _whole(value: Any, otherwise: int) -> int:
    text = str(value)
    return int(text) if text.isdigit() else otherwise
