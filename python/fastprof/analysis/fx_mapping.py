# SPDX-License-Identifier: Apache-2.0
"""Add stack traces of a model's source to the events of code that PyTorch generated from it (torch.fx).

Generated code marks its files and nodes by ranges named "## file.py ##" and "## index ##".
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

__all__ = ["map_recorded_events_to_aten_ops_with_stack_trace"]

_END, _START, _REGULAR = 0, 1, 2  # sort order at equal times
_NO_TRACE = "No model stack trace available"


def map_recorded_events_to_aten_ops_with_stack_trace(
    traced_data: Mapping[str, Any], registry: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """Return the trace with args.stack_trace and args.node_name for events inside a marked node.

    traced_data: a Chrome trace as json.load() returns it; it stays unchanged, and events without a node are shared
    with the result. registry: {file: {"node_metadata": {index: {"stack_trace": ..., "name": ...}}}}; default: that of
    torch.fx if it is loaded, else empty. A node counts inside a file marker of its thread that has its index; an event
    belongs to the innermost node of its own process and thread. Markers that name neither a file nor a number are
    ignored. At equal times, ends come first, then begins, then events. O(n log n) for n events. Any thread.
    """
    if registry is None:
        theirs = sys.modules.get("torch.fx.traceback")
        registry = getattr(theirs, "_FX_METADATA_REGISTRY", {})
    events = list(traced_data.get("traceEvents", ()))
    moments: list[tuple[Any, int, int, int, str | int | None]] = []
    for index, event in enumerate(events):
        if not isinstance(event, dict) or "ts" not in event or "dur" not in event:
            continue
        start = event["ts"]
        marker = _marker(event)
        if marker is None:
            moments.append((start, _REGULAR, 0, index, None))
        elif marker != "":
            # Of markers that begin together, the longer one is outer: it begins first and ends last.
            moments.append((start, _START, 0, index, marker))
            moments.append((start + event["dur"], _END, -index, index, marker))
    moments.sort(key=lambda m: (m[0], m[1], m[2] if m[1] == _END else -events[m[3]]["dur"]))
    open_by_thread: dict[Any, list[tuple[int, bool, Any]]] = {}
    for _, what, _, index, marker in moments:
        event = events[index]
        opened = open_by_thread.setdefault((event.get("pid"), event.get("tid")), [])
        if what == _REGULAR:
            node = next((entry for _, is_node, entry in reversed(opened) if is_node), None)
            if node is not None:
                events[index] = _with_node(event, node)
        elif what == _END:
            opened[:] = [entry for entry in opened if entry[0] != index]
        elif isinstance(marker, str):
            opened.append((index, False, (registry.get(marker) or {}).get("node_metadata") or {}))
        else:
            nodes: Any = next((entry for _, is_node, entry in reversed(opened) if not is_node), {})
            if marker in nodes:
                opened.append((index, True, nodes[marker]))
    return {**traced_data, "traceEvents": events}


def _marker(event: Mapping[str, Any]) -> str | int | None:
    """Return the file or node number of a marker, "" for one that names neither, None for other events."""
    name = event.get("name")
    if event.get("cat") != "cpu_op" or not isinstance(name, str):
        return None
    if not (name.startswith("## ") and name.endswith(" ##") and len(name) >= 6):
        return None
    content = name[3:-3]
    if content.endswith(".py"):
        return content
    try:
        return int(content)
    except ValueError:
        return ""


def _with_node(event: dict[str, Any], node: Mapping[str, Any]) -> dict[str, Any]:
    arguments = {**(event.get("args") or {}), "stack_trace": node.get("stack_trace", _NO_TRACE)}
    if node.get("name"):
        arguments["node_name"] = node["name"]
    return {**event, "args": arguments}
