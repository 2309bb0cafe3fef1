# SPDX-License-Identifier: Apache-2.0
"""Sends and receives by pair of ranks: group "G 0->1", or "G 0->1 tag 2", and the place in the order of issue within a
step, on both ranks.

NCCL's work says its peer ("Src Rank", "Dst Rank"). gloo's does not, and torch's flight recorder leaves it out: the op
c10d::send or c10d::recv_ around its issue has it in its inputs, if shapes are recorded.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from fastprof.model.table import EventTable

__all__ = ["ANY_RANK", "PAIRED", "Pair", "host_peers", "pair_of", "paired_group", "pair_places"]

Array: TypeAlias = NDArray[Any]
PAIRED = ("send", "recv")
_PAIR = re.compile(r"(?:(.*) )?([0-9]+)->([0-9]+)(?: tag [0-9]+)?$", re.S)
_ISSUES = {"c10d::send": "send", "c10d::recv_": "recv", "c10d::recv_any_source_": "recv"}
ANY_RANK = -1  # peer of a receive from any rank


class Pair(NamedTuple):
    """The process group and the ranks that send and receive."""

    group: str
    source: int
    target: int


def pair_of(group: str) -> Pair | None:
    """Return the pair that a group of paired_group() names; None for a process group."""
    match = _PAIR.match(group)
    return None if match is None else Pair(match[1] or "", int(match[2]), int(match[3]))


def paired_group(
    group: str, kind: str, rank: int, peer: int, members: Sequence[int] | None, tag: int = 0
) -> str:
    """Return the name of the pair of a send or receive. peer: rank within the group, whose members are `members`.

    tag: of gloo, which pairs each tag by itself.
    """
    if members is not None:
        if peer >= len(members):
            return ""
        peer = members[peer]
    source, target = (rank, peer) if kind == "send" else (peer, rank)
    return f"{group} {source}->{target}".strip() + (f" tag {tag}" if tag else "")


def pair_places(groups: Sequence[str], step: Array) -> list[int]:
    """Return the place of each among those of its group and step. step: number of the step that each is in."""
    count: dict[tuple[str, int], int] = {}
    found = []
    for key in zip(groups, step.tolist(), strict=True):
        found.append(count.get(key, 0))
        count[key] = found[-1] + 1
    return found


def host_peers(
    table: EventTable, rows: Array, kinds: Sequence[str]
) -> list[tuple[int, int] | None]:
    """Return peer, a rank of its group or ANY_RANK, and tag of each send or receive of gloo; None: unknown."""
    column = table.coded.get("concrete_inputs")
    names: Mapping[int, str] = {
        code: _ISSUES[name] for code, name in enumerate(table.names) if name in _ISSUES
    }
    if column is None or not names:
        return [None] * len(rows)
    ops = np.flatnonzero(np.isin(table.name_id, list(names)))
    ops = ops[np.argsort(table.start_ns[ops], kind="stable")]
    kind_of = np.array([names[code] for code in table.name_id[ops].tolist()], object)
    found: list[tuple[int, int] | None] = []
    for row, kind in zip(rows.tolist(), kinds, strict=True):
        own = ops[kind_of == kind]
        at = int(np.searchsorted(table.start_ns[own], table.start_ns[row], "right")) - 1
        found.append(None)
        if at >= 0 and table.end_ns[own[at]] >= table.start_ns[row]:
            code = int(column.codes[own[at]])
            any_rank = table.name(row).endswith("AnySource")
            found[-1] = None if code < 0 else _peer(column.values[code], any_rank)
    return found


def _peer(inputs: Any, any_rank: bool) -> tuple[int, int] | None:
    """Return the last two inputs: peer and tag. any_rank: the tag alone is one."""
    try:
        value = json.loads(inputs) if isinstance(inputs, str) else inputs
        return ANY_RANK if any_rank else int(value[-2]), int(value[-1])
    except (TypeError, ValueError, IndexError, KeyError):
        return None
