# SPDX-License-Identifier: Apache-2.0
"""Hatchet's JSON, as Triton's Proton writes it, also packed as MessagePack: trees of frames with sums of time.

Format: https://hatchet.readthedocs.io (literal), a list of {"frame": {"name"}, "metrics": {...}, "children": [...]}. A
node's time is its own, without its children's. Proton's last element has the facts of the devices instead.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from typing import Any

from fastprof.base import errors
from fastprof.importers.sampled.stack_rows import NS_PER_UNIT, StackRows, StackTree, malformed
from fastprof.importers.sampled.whole_file import JSON_BYTES_A_BYTE, whole_file
from fastprof.importers.source import Source
from fastprof.model.table import EventTable

__all__ = ["read_hatchet"]

_TIME = re.compile(r"time(?: \((\w+)\))?", re.IGNORECASE)
_PLACE = re.compile(r"(?P<file>[^@]+):(?P<line>\d+)@(?P<name>.+)")


_PACKED_BYTES_A_BYTE = 80  # what msgpack.unpackb() takes at most: a byte may be an empty map


def _unpacked(source: Source, data: bytes) -> Any:
    """The value of a file of MessagePack. Raises ValueError if it is malformed."""
    source.budget.check(_PACKED_BYTES_A_BYTE * len(data))
    try:
        import msgpack
    except ImportError:
        raise errors.FormatError(
            "this tree of Hatchet's is packed as MessagePack, which needs the package msgpack: `pip install msgpack`, "
            'or let Proton write JSON: proton.finalize(output_format="hatchet")'
        ) from None
    try:
        return msgpack.unpackb(data)
    except (msgpack.UnpackException, UnicodeDecodeError) as error:
        raise ValueError(f"no MessagePack: {error or type(error).__name__}") from error


def read_hatchet(source: Source) -> EventTable:
    """Return the rows of the trees, laid one after the other: the file has sums, no times.

    Raises errors.FormatError for a malformed file, and for MessagePack without the package msgpack.
    """
    text = whole_file(source, JSON_BYTES_A_BYTE)
    rows = StackRows(source, "hatchet")
    with malformed(source):
        tree = StackTree()
        weights_ns: dict[int, int] = defaultdict(int)
        trees = json.loads(text) if text.lstrip()[:1] == b"[" else _unpacked(source, text)
        ready: list[tuple[int, Any]] = [(-1, each) for each in reversed(trees)]
        while ready:
            caller, node = ready.pop()
            if "frame" not in node:  # Proton's facts of devices
                continue
            name = node["frame"]["name"]
            if caller < 0 and name == "ROOT":
                place = -1
            else:
                found = _PLACE.fullmatch(name)
                frame = (
                    rows.frame(found["name"], found["file"], int(found["line"]))
                    if found
                    else rows.frame(name)
                )
                place = tree.child(caller, frame)
            for metric, amount in node.get("metrics", {}).items():
                unit = _TIME.fullmatch(metric)
                if unit and amount > 0 and place >= 0:
                    weights_ns[place] += round(amount * NS_PER_UNIT.get(unit[1] or "s", 1))
                    rows.samples += 1
            ready.extend((place, each) for each in reversed(node.get("children", ())))
        if not tree.frame:
            raise errors.FormatError("the file has no frames")
        rows.add_weights(rows.track("sums"), tree, weights_ns)
        return rows.finish()
