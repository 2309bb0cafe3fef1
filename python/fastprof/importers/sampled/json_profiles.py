# SPDX-License-Identifier: Apache-2.0
"""V8's .cpuprofile (node --cpu-prof, Chrome's DevTools) and speedscope's files.

Formats: https://chromedevtools.github.io/devtools-protocol/tot/Profiler/#type-Profile, and the schema published with
speedscope (file-format-schema.json): profiles of type "sampled" and "evented".
"""

from __future__ import annotations

from typing import Any

from fastprof.base import errors
from fastprof.importers.sampled.stack_rows import NS_PER_UNIT, StackRows, StackTree, malformed
from fastprof.importers.sampled.whole_file import json_object
from fastprof.importers.source import Source
from fastprof.model.table import EventTable

__all__ = ["read_cpuprofile", "read_speedscope"]

_NO_STACK = ("(root)", "(idle)")


def read_cpuprofile(source: Source) -> EventTable:
    """Return the rows of a .cpuprofile: one thread. Idle time has no row."""
    document = json_object(source)
    rows = StackRows(source, "cpuprofile")
    with malformed(source):
        nodes = {node["id"]: node for node in document["nodes"]}
        parent = {
            child: node["id"] for node in nodes.values() for child in node.get("children", ())
        }
        parent.update({node["id"]: node["parent"] for node in nodes.values() if "parent" in node})
        frames = {number: _v8_frame(rows, node["callFrame"]) for number, node in nodes.items()}
        tree = StackTree()
        place: dict[Any, int] = {}

        def place_of(number: Any) -> int:
            path = []
            while number is not None and number not in place:
                path.append(number)
                if len(path) > len(nodes):
                    raise errors.FormatError("a node is its own caller")
                number = parent.get(number)
            at = -1 if number is None else place[number]
            for each in reversed(path):
                frame = frames[each]
                at = place[each] = at if frame is None else tree.child(at, frame)
            return at

        at_us = document.get("startTime", 0)
        samples = []
        for number, delta in zip(document["samples"], document["timeDeltas"], strict=True):
            at_us += delta
            samples.append((round(1000 * at_us), place_of(number)))
        # V8 may report a sample some microseconds before the one it took earlier.
        samples.sort(key=lambda sample: sample[0])
        end_ns = round(1000 * document.get("endTime", at_us))
        rows.add_samples(rows.track("main thread"), tree, samples, end_ns)
        return rows.finish()


def _v8_frame(rows: StackRows, call: dict[str, Any]) -> int | None:
    name = call.get("functionName", "")
    if name in _NO_STACK:
        return None
    url = call.get("url", "").removeprefix("file://")
    return rows.frame(name, url, int(call.get("lineNumber", -1)) + 1)


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
