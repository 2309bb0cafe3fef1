# SPDX-License-Identifier: Apache-2.0
"""path_tree: the ranges of an EventList merged by name path, for tree_text and flame_text.

Ranges of all threads and tasks are merged; time in which workers of pools are idle does not count. Each process (if
there are several), async ranges, and each kind of device have a heading of their own: a node without calls.
"""

from __future__ import annotations

from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from fastprof.base.device_type import device_type_name
from fastprof.base.distinct import distinct
from fastprof.base.visible_text import shortened, visible_text
from fastprof.model.name_paths import name_paths
from fastprof.model.site_kinds import KINDS, site_kinds
from fastprof.model.thread_waits import ThreadWaits
from fastprof.model.tree import EventTree
from fastprof.views.frame import display_codes
from fastprof.views.table_rows import tree_of

__all__ = ["MAX_NAME_CHARS", "Node", "path_tree"]

Array: TypeAlias = NDArray[Any]

MAX_NAME_CHARS = 400


class Node(NamedTuple):
    """A name path, or a heading (calls is 0). Times in ns; own_ns is 0 for async ranges and device activities.

    kind: index in model.site_kinds.KINDS.
    """

    name: str
    calls: int
    total_ns: int
    own_ns: int
    children: list[Node]
    kind: int = 0


def path_tree(events: Any, visible: bool) -> list[Node]:
    """Return the root nodes, longest first, headings last; children are also sorted, longest first.

    events: an EventList of events, also of hand-made ones. visible: apply visible_text() to names.
    """
    tree = tree_of(events)
    if not len(tree):
        return []
    tree = ThreadWaits(tree.table).without_idle(tree)
    codes, texts = display_codes(tree)
    heads, titles = _heads(tree)
    paths = name_paths(tree, codes, max(len(texts), 1), heads)
    duration = paths.sums(tree.take(tree.table.duration_ns))
    on_track = np.array([not title or title.startswith("pid ") for title in titles])[paths.head]
    total = np.where(on_track, paths.total_ns, duration)
    shown: list[str | None] = [None] * len(texts)

    def text_of(code: int) -> str:
        text = shown[code]
        if text is None:
            text = shortened(texts[code], MAX_NAME_CHARS)
            shown[code] = text = visible_text(text) if visible else text
        return text

    kinds: Array = np.zeros(len(paths), np.int64)
    kinds[paths.of_row] = np.array(site_kinds(tree.table.sites), np.int64)[tree.column("site")]
    if tree.on_cpu is not None:
        kinds[paths.of_row[~tree.on_cpu]] = len(KINDS) - 1
    columns = (paths.name, paths.count, total, paths.self_ns, kinds)
    rows_of = list(zip(*(column.tolist() for column in columns), strict=True))
    nodes = [
        Node(text_of(name), calls, ns, own, [], kind) for name, calls, ns, own, kind in rows_of
    ]
    roots: dict[int, list[Node]] = {}
    # The longest first; children are appended in that order.
    for index in np.argsort(-total, kind="stable").tolist():
        parent = int(paths.parent[index])
        if parent < 0:
            roots.setdefault(int(paths.head[index]), []).append(nodes[index])
        else:
            nodes[parent].children.append(nodes[index])
    found = roots.pop(0, []) if not titles[0] else []
    for head in sorted(roots):
        inner = roots[head]
        total_ns, own_ns = sum(n.total_ns for n in inner), sum(n.own_ns for n in inner)
        title = visible_text(titles[head]) if visible else titles[head]
        found.append(Node(title, 0, total_ns, own_ns, inner))
    return found


def _heads(tree: EventTree) -> tuple[Array, list[str]]:
    """Return (heading code of each row, headings by code; "" for no heading)."""
    table = tree.table
    heads: Array = np.zeros(len(tree), np.int64)
    titles = [""]
    pids = [track.pid for track in table.tracks]
    if len(set(pids)) > 1:
        numbers, codes = np.unique(np.array(pids, np.int64), return_inverse=True)
        heads = codes.reshape(-1)[tree.column("track")].astype(np.int64)
        processes = table.metadata.get("processes") or ()
        names = {
            p["pid"]: p.get("name", "") for p in processes if isinstance(p, dict) and "pid" in p
        }
        names.setdefault(table.pid, table.process_name)
        titles = [f"pid {n} {names.get(n, '')}".rstrip() for n in numbers.tolist()]
    if tree.is_async is not None:
        heads = np.where(tree.is_async, len(titles), heads)
        titles = [*titles, "[async ranges]"]
    if tree.on_cpu is not None:
        types = tree.column("device_type")
        for number in distinct(types[~tree.on_cpu]).tolist():
            heads = np.where(types == number, len(titles), heads)
            titles = [*titles, f"[{device_type_name(number)}]"]
    return heads, titles
