# SPDX-License-Identifier: Apache-2.0
"""EventMetadata: named extra fields of device activities and collectives."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

__all__ = ["EventMetadata", "parse_metadata"]


class EventMetadata(NamedTuple):
    """Fields by name, None where the activity lacks the field. Names are those of PyTorch 2.13.

    Immutable: any thread.
    """

    # kernels
    registers_per_thread: int | None = None
    shared_memory: int | None = None
    grid: list[int] | None = None
    block: list[int] | None = None
    priority: int | None = None
    blocks_per_sm: float | None = None
    warps_per_sm: float | None = None
    occupancy: dict[str, Any] | None = None
    est_occupancy_pct: float | None = None
    queued: int | None = None
    graph_id: int | None = None
    graph_node_id: int | None = None
    stream: int | None = None
    context: int | None = None
    channel: int | None = None
    channel_type: int | None = None
    # memory copies and sets
    bytes: int | None = None
    bandwidth_gb_s: float | None = None
    # collectives
    collective_name: str | None = None
    dtype: str | None = None
    in_msg_nelems: int | None = None
    out_msg_nelems: int | None = None
    in_split_size: str | None = None
    out_split_size: str | None = None
    global_rank_start: int | None = None
    global_rank_stride: int | None = None
    group_size: int | None = None
    process_group_name: str | None = None
    process_group_desc: str | None = None
    group_ranks: str | None = None
    rank: int | None = None
    src_rank: int | None = None
    dst_rank: int | None = None
    seq: int | None = None
    is_async: bool | None = None


def _text(value: str) -> str:
    return value.strip('"')


def _truth(value: Any) -> bool:
    """Convert a flag. Kineto writes it as text or as a number; torch 2.14 and newer as a JSON boolean."""
    return value in ("1", "true", 1)


# Field -> key in Kineto's trace args; the field's type selects the converter. The key of other fields
# is the field's name with " " for "_", capitalised for collectives.
_KEYS = {
    "registers_per_thread": "registers per thread",
    "shared_memory": "shared memory",
    "blocks_per_sm": "blocks per SM",
    "warps_per_sm": "warps per SM",
    "est_occupancy_pct": "est. achieved occupancy %",
    "graph_id": "graph id",
    "graph_node_id": "graph node id",
    "bandwidth_gb_s": "memory bandwidth (GB/s)",
    "collective_name": "Collective name",
    "in_msg_nelems": "In msg nelems",
    "out_msg_nelems": "Out msg nelems",
    "in_split_size": "In split size",
    "out_split_size": "Out split size",
    "global_rank_start": "Global rank start",
    "global_rank_stride": "Global rank stride",
    "group_size": "Group size",
    "process_group_name": "Process Group Name",
    "process_group_desc": "Process Group Description",
    "group_ranks": "Process Group Ranks",
    "rank": "Rank",
    "src_rank": "Src Rank",
    "dst_rank": "Dst Rank",
    "seq": "Seq",
    "is_async": "Is asynchronized op",
}
_JSON_FIELDS = {"grid", "block", "occupancy"}
_FLOAT_FIELDS = {"blocks_per_sm", "warps_per_sm", "est_occupancy_pct", "bandwidth_gb_s"}
_TEXT_FIELDS = {
    "collective_name",
    "dtype",
    "in_split_size",
    "out_split_size",
    "process_group_name",
    "process_group_desc",
    "group_ranks",
}


def _converter(field: str) -> Callable[[str], Any]:
    if field in _JSON_FIELDS:
        return json.loads
    if field in _FLOAT_FIELDS:
        return float
    if field in _TEXT_FIELDS:
        return _text
    return _truth if field == "is_async" else int


def parse_metadata(extra: Mapping[str, Any] | None) -> EventMetadata | None:
    """Return the EventMetadata of a mapping from Kineto keys to values; None if no key is known."""
    if not extra:
        return None
    fields = {}
    for field in EventMetadata._fields:
        value = extra.get(_KEYS.get(field, field))
        if value is not None:
            as_given = not isinstance(value, str) and field != "is_async"
            fields[field] = value if as_given else _converter(field)(value)
    return EventMetadata(**fields) if fields else None
