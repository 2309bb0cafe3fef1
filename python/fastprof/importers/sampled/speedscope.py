# SPDX-License-Identifier: Apache-2.0
"""speedscope's files: profiles of type "sampled" and "evented" (file-format-schema.json, published with speedscope)."""

from __future__ import annotations

from typing import Any

from fastprof.base import errors
from fastprof.importers.sampled.stack_rows import NS_PER_UNIT, StackRows, StackTree, malformed
from fastprof.importers.sampled.whole_file import json_object
from fastprof.importers.source import Source
from fastprof.model.table import EventTable

__all__ = ["read_speedscope"]


def read_speedscope(source: Source) -> EventTable:
    """Return the rows of a speedscope file: a track for each of its profiles."""
    document = json_object(source)
    rows = StackRows(source, "speedscope")
    with malformed(source):
        frames = [
            rows.frame(frame["name"], frame.get("file") or "", frame.get("line") or 0)
            for frame in document["shared"]["frames"]
        ]
        for number, profile in enumerate(document["profiles"]):
            unit_ns = NS_PER_UNIT.get(profile.get("unit"), 1)
            track = rows.track(profile.get("name", ""), 0, number + 1, key=number)
            tree = StackTree()
            made = _sampled if profile["type"] == "sampled" else _evented
            samples, end = made(tree, profile, frames)
            rows.add_samples(
                track,
                tree,
                [(round(at * unit_ns), node) for at, node in samples],
                round(end * unit_ns),
            )
        return rows.finish(process_name=document.get("name") or "")


def _sampled(
    tree: StackTree, profile: dict[str, Any], frames: list[int]
) -> tuple[list[Any], float]:
    at = profile["startValue"]
    samples = []
    for stack, weight in zip(profile["samples"], profile["weights"], strict=True):
        samples.append((at, tree.path(frames[each] for each in stack)))
        at += weight
    return samples, at


def _evented(
    tree: StackTree, profile: dict[str, Any], frames: list[int]
) -> tuple[list[Any], float]:
    samples, node = [], -1
    for event in profile["events"]:
        frame = frames[event["frame"]]
        if event["type"] == "O":
            node = tree.child(node, frame)
        elif node >= 0 and tree.frame[node] == frame:
            node = tree.parent[node]
        else:
            raise errors.FormatError(
                f"a frame is closed at {event['at']} that is not the innermost"
            )
        samples.append((event["at"], node))
    return samples, profile["endValue"]
