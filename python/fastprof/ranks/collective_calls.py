# SPDX-License-Identifier: Apache-2.0
"""collective_calls: the collectives of a rank, with the group and sequence number by which ranks are matched.

Work of NCCL and RCCL on devices has both in its arguments ("Process Group Name", "Seq"), as torch.profiler and fastprof
record them. gloo's work on the host has neither. In a job with one group, its number is its place in the order of issue
within a step, which is the same on all ranks; with several, host_groups.py finds both in torch's flight recorder.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import compress
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from fastprof.base.formatting import counted
from fastprof.model.columns import EventFlag
from fastprof.model.table import EventKind, EventTable
from fastprof.ranks.device_links import launch_starts
from fastprof.ranks.event_names import (
    HOST_COLLECTIVE,
    PLACE,
    STEP_SHIFT,
    UNMATCHED,
    is_host_collective,
)
from fastprof.ranks.host_groups import RecordedCall, host_groups
from fastprof.ranks.peer_calls import ANY_RANK, PAIRED, host_peers, pair_places, paired_group
from fastprof.ranks.step_rows import step_rows

__all__ = ["CollectiveCalls", "collective_calls"]

Array: TypeAlias = NDArray[Any]
_KERNEL = re.compile(r"(nccl|rccl|hccl)", re.I)
_KINDS = (
    ("all_reduce", "allreduce"),
    ("all_gather", "allgather"),
    ("reduce_scatter", "reducescatter"),
    ("all_to_all", "alltoall"),
    ("broadcast", "broadcast"),
    ("barrier", "barrier"),
    ("reduce", "reduce"),
    ("gather", "gather"),
    ("scatter", "scatter"),
    ("send", "send"),
    ("recv", "recv"),
)
# Bytes of an element, by torch's name of the type in "dtype".
_ITEM_BYTES = {
    **dict.fromkeys(("Byte", "Char", "Bool", "Float8_e5m2", "Float8_e4m3fn"), 1),
    **dict.fromkeys(("Half", "BFloat16", "Short"), 2),
    **dict.fromkeys(("Float", "Int"), 4),
    **dict.fromkeys(("Double", "Long", "ComplexFloat"), 8),
    "ComplexDouble": 16,
}


@dataclass
class CollectiveCalls:
    """Collectives of a table, by start. rows: table rows. sequence: UNMATCHED if unknown. size_bytes: -1: unknown.

    missing: why some of them cannot be matched, by name.
    """

    rows: Array
    kind: list[str]
    group: list[str]
    sequence: Array
    size_bytes: Array
    missing: dict[str, str] = field(default_factory=dict)

    def ended(self, table: EventTable) -> CollectiveCalls:
        """Return those with an end, which the last ones of a process that was killed do not have."""
        chosen = (table.column("flags")[self.rows] & EventFlag.FINISHED) != 0
        kind, group = (
            [v for v, c in zip(each, chosen, strict=True) if c] for each in (self.kind, self.group)
        )
        rows, sequence, size = (e[chosen] for e in (self.rows, self.sequence, self.size_bytes))
        return CollectiveCalls(rows, kind, group, sequence, size, self.missing)


def collective_calls(
    table: EventTable,
    groups: Sequence[dict[str, Any]] = (),
    *,
    rank: int = 0,
    lost: str = "",
    recorded: Sequence[RecordedCall] | None = None,
    recorded_until_ns: int | None = None,
) -> CollectiveCalls:
    """Return the collectives of a table: kernels of devices, or, without any, gloo's work on the host.

    groups: process groups of the rank, {"name", "ranks"}. rank: its number. lost: of a process that was
    killed, why torch's flight recorder does not say all groups. recorded: recorded_calls() of the process,
    recorded_until_ns: when they were read, default: after the recording. Any thread.
    """
    names, categories = table.sites.names, table.sites.field("category")
    pairs = list(zip(names, categories, strict=True))
    on_device = np.array([c == "kernel" and bool(_KERNEL.search(n)) for n, c in pairs], np.bool_)
    on_host = np.array([is_host_collective(n) for n in names], np.bool_)
    site = table.column("site")
    rows = np.flatnonzero(on_device[site]) if len(pairs) else np.zeros(0, np.int64)
    if len(rows):
        rows = rows[np.argsort(table.start_ns[rows], kind="stable")]
        return _of_device(table, rows, groups, rank)
    rows = np.flatnonzero(on_host[site]) if len(pairs) else np.zeros(0, np.int64)
    if table.has("kind"):
        rows = rows[table.column("kind")[rows] <= EventKind.ASYNC_RANGE]
    return _of_host(
        table,
        rows[np.argsort(table.start_ns[rows], kind="stable")],
        groups,
        recorded,
        table.t1_ns if recorded_until_ns is None else recorded_until_ns,
        lost,
        rank,
    )


def _of_host(
    table: EventTable,
    rows: Array,
    groups: Sequence[dict[str, Any]],
    recorded: Sequence[RecordedCall] | None,
    until_ns: int,
    lost: str,
    rank: int,
) -> CollectiveCalls:
    matches = [HOST_COLLECTIVE.match(table.name(row)) for row in rows.tolist()]
    kinds = [_kind(match[2]) if match is not None else "" for match in matches]
    whole = np.array([kind not in PAIRED for kind in kinds], np.bool_)
    begin, number = np.zeros((2, 0), np.int64)  # of steps
    if recorded is None and len(groups) <= 1:
        # Calls are numbered within steps. Those before the first one, as of setting up, are of none.
        begin, number = _steps(table)
        kept = ~whole | (table.start_ns[rows] >= (begin[0] if len(begin) else 0))
        kinds = list(compress(kinds, kept.tolist()))
        rows, whole = rows[kept], whole[kept]
    chosen = rows[whole]
    sequence: Array = np.full(len(rows), UNMATCHED, np.int64)
    name = str(groups[0]["name"]) if len(groups) == 1 else ""
    names = np.full(len(rows), name, object)
    missing = {}
    if recorded is not None:
        texts = [table.name(row) for row in chosen.tolist()]
        threads = table.recording_thread[chosen]
        found, numbers = host_groups(texts, table.start_ns[chosen], threads, recorded, until_ns)
        names[whole], sequence[whole] = found, numbers
        if unknown := int((numbers < 0).sum()):
            missing["collective_groups"] = (
                f"{unknown} of {counted(len(chosen), 'collective')} of the host ran on threads of unknown groups. "
                + (
                    lost
                    or "torch's flight recorder, which says it, has too few calls of them. Record fewer steps, or set "
                    "TORCH_FR_BUFFER_SIZE to more than 2000."
                )
            )
    elif len(groups) > 1:
        missing["collective_groups"] = (
            f"{counted(len(chosen), 'collective')} of the host do not say to which of {len(groups)} process groups "
            "they belong, so they are not matched over ranks. "
            + (lost or "Record devices with NCCL, use one group, or PyTorch 2.8.")
        )
    else:
        at = np.searchsorted(begin, table.start_ns[chosen], side="right") - 1
        first = np.searchsorted(at, at)  # of the same step
        inside = at >= 0
        sequence[whole] = np.where(
            inside,
            (number[at.clip(min=0)] << STEP_SHIFT) + np.arange(len(chosen)) - first + PLACE,
            UNMATCHED,
        )
    pairs = np.flatnonzero(~whole)
    if len(pairs):
        own = [kinds[at] for at in pairs.tolist()]
        peers = host_peers(table, rows[pairs], own)
        if any(peer is None for peer in peers) or len(groups) > 1:
            missing["peers"] = (
                f"{counted(len(pairs), 'send or receive', 'sends and receives')} of gloo do not say their group and "
                "peer, so they are not paired "
                "over ranks. Record with record_shapes=True in a job with one process group."
            )
        else:
            members = groups[0]["ranks"] if groups else None
            known = [peer for peer in peers if peer is not None]
            if members is not None and len(members) == 2 and rank in members:  # any is the other
                known = [(1 - members.index(rank), tag) for _, tag in known]
            loose = {tag for peer, tag in known if peer == ANY_RANK}
            found = [
                "" if kind == "recv" and tag in loose
                else paired_group(name, kind, rank, peer, members, tag)
                for kind, (peer, tag) in zip(own, known, strict=True)
            ]  # fmt: skip
            if loose:
                missing["peers"] = (
                    f"{found.count('')} of {counted(len(pairs), 'send or receive', 'sends and receives')} of gloo "
                    "receive from any rank, or have the tag of one that does, so they are not paired over ranks. Name "
                    "the sender: recv(tensor, src)."
                )
            issued = table.start_ns[rows[pairs]]
            names[pairs], sequence[pairs] = found, _pair_numbers(table, issued, found)
    return CollectiveCalls(
        rows, kinds, names.tolist(), sequence, np.full(len(rows), -1, np.int64), missing
    )


def _steps(table: EventTable) -> tuple[Array, Array]:
    """Return when the steps began, ns, and their numbers."""
    steps, _ = step_rows(table)
    begin, number = (np.array([each[i] for each in steps], np.int64) for i in (1, 0))
    return begin, number


def _pair_numbers(table: EventTable, issued: Array, groups: Sequence[str]) -> Array:
    """Return the sequence numbers of sends and receives. issued: ns. groups: of paired_group()."""
    begin, number = _steps(table)
    at = np.searchsorted(begin, issued, side="right") - 1
    step = np.where(at >= 0, number[at.clip(min=0)], -1) if len(begin) else np.full(len(issued), -1)
    order = np.argsort(issued, kind="stable")
    places = np.zeros(len(issued), np.int64)
    places[order] = pair_places([groups[at] for at in order.tolist()], step[order])
    found: Array = (step << STEP_SHIFT) + places + PLACE
    return np.where(
        (step >= 0) & np.array([each != "" for each in groups], np.bool_), found, UNMATCHED
    )


def _of_device(
    table: EventTable, rows: Array, known_groups: Sequence[dict[str, Any]], rank: int
) -> CollectiveCalls:
    column = table.coded.get("metadata_json")
    parsed: dict[int, dict[str, Any]] = {}
    kinds: list[str] = []
    groups: list[str] = []
    peers: list[str] = []  # names of pairs, "" for others
    sequence = np.full(len(rows), UNMATCHED, np.int64)
    size_bytes = np.full(len(rows), -1, np.int64)
    for place, row in enumerate(rows.tolist()):
        code = -1 if column is None else int(column.codes[row])
        if code >= 0 and code not in parsed and column is not None:
            parsed[code] = _arguments(column.values[code])
        found = parsed.get(code, {})
        kinds.append(_kind(str(found.get("Collective name") or table.name(row))))
        name, members = found.get("Process Group Name"), found.get("Process Group Ranks")
        groups.append(f"{_text(name)} {_text(members)}".strip() if name is not None else "")
        number = _number(found.get("Seq"))
        peer = _number(found.get("Dst Rank" if kinds[-1] == "send" else "Src Rank"))
        peers.append("")
        if kinds[-1] in PAIRED:
            if peer is not None and name is not None:
                of_group = _ranks_of(_text(name), found, known_groups)
                peers[-1] = paired_group(groups[-1], kinds[-1], rank, peer, of_group)
        elif number is not None and name is not None:
            sequence[place] = number
        elements, item = (
            _number(found.get("In msg nelems")),
            _ITEM_BYTES.get(_text(found.get("dtype"))),
        )
        if elements is not None and item is not None:
            size_bytes[place] = elements * item
    pairs = [at for at, each in enumerate(peers) if each]
    for at in pairs:
        groups[at] = peers[at]
    issued = _issued(table, rows[pairs]) if pairs else np.zeros(0, np.int64)
    sequence[pairs] = _pair_numbers(table, issued, [peers[at] for at in pairs])
    unpaired = int((sequence[pairs] == UNMATCHED).sum())
    unmatched = int((sequence == UNMATCHED).sum()) - unpaired
    missing = {}
    if unpaired:
        missing["peers"] = (
            f"{unpaired} of {counted(len(pairs), 'send or receive', 'sends and receives')} were launched before the "
            "first recorded step, so they are not paired over ranks. Record one step more."
        )
    if unmatched:
        missing["collective_groups"] = (
            f"{unmatched} of {counted(len(rows), 'collective')} have no group or sequence number, so they are not "
            "matched over ranks. Record with PyTorch 2.5 or newer, which writes Seq."
        )
    return CollectiveCalls(rows, kinds, groups, sequence, size_bytes, missing)


def _issued(table: EventTable, rows: Array) -> Array:
    """Return when each was launched; if that is unknown, when it began, or -1 if it began before all others."""
    launched = launch_starts(table, rows)
    start, known = table.start_ns[rows], launched >= 0
    if known.any():  # what began before them was launched before the recording began
        known |= start < start[known].min()
    return np.where(known, launched, start)


def _ranks_of(
    name: str, arguments: dict[str, Any], groups: Sequence[dict[str, Any]]
) -> list[int] | None:
    """Return the ranks of a group, as the manifest or the call's arguments have them."""
    for each in groups:
        if str(each["name"]) == name:
            return [int(number) for number in each["ranks"]]
    try:
        found = json.loads(_text(arguments.get("Process Group Ranks")))
    except ValueError:
        return None  # cut by the recorder, or absent: then the group is taken to be of all ranks
    return found if isinstance(found, list) and all(type(n) is int for n in found) else None


def _arguments(text: Any) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except (TypeError, ValueError):
        return {}
    return value if isinstance(value, dict) else {}


def _text(value: Any) -> str:
    return "" if value is None else str(value).strip('"')


def _number(value: Any) -> int | None:
    if isinstance(value, str) and value.strip('"').isdecimal():
        return int(value.strip('"'))
    return value if type(value) is int and value >= 0 else None


@lru_cache(1024)
def _kind(name: str) -> str:
    """Return the kind of collective that a name says: "ncclDevKernel_AllReduce_Sum_f32" is "all_reduce"."""
    plain = re.sub(r"[^a-z]", "", name.lower())
    return next((kind for kind, word in _KINDS if word in plain), name)
