# SPDX-License-Identifier: Apache-2.0
"""Validate the indices in an imported table before anything uses them."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from fastprof.base import errors
from fastprof.model.table import NO_PAYLOAD, EventKind, EventTable

__all__ = ["FIXED_WORDS", "check_indices"]

Array: TypeAlias = NDArray[Any]
_PIECE_ROWS = 1 << 18
# Payload words before the detail blocks of a row, by kind; for ranges and marks the site decides.
FIXED_WORDS = {
    EventKind.COUNTER: 1,
    EventKind.FLOW_BEGIN: 1,
    EventKind.FLOW_END: 1,
    EventKind.MEMORY: 4,
    EventKind.OUT_OF_MEMORY: 3,
}


def check_indices(table: EventTable, where: str) -> None:
    """Raise errors.FormatError, naming the row, for the first index out of range."""
    size = len(table)

    def require(column: str, good: Array, what: str) -> None:
        if not bool(good.all()):
            row = int(np.argmin(good))
            raise errors.FormatError(f"{where}: row {row}: {column} {what}")

    require("site", table.column("site") < len(table.sites), "is not the index of a site")
    if table.has("track") and len(table.tracks):
        require("track", table.column("track") < len(table.tracks), "is not the index of a track")
    if table.has("end_track"):
        ends = table.column("end_track")
        require("end_track", ends < max(len(table.tracks), 1), "is not the index of a track")
    if table.has("kind"):
        require("kind", table.column("kind") <= max(EventKind), "is not an EventKind")
    if table.has("parent"):
        parent = table.column("parent")
        require("parent", (parent >= -1) & (parent < size), "is not the index of a row")
        _require_no_cycle(parent, where)
        if table.begin_ordered:
            require("parent", parent < np.arange(size), "is not an earlier row")
    for name, column in table.coded.items():
        require(name, column.codes < len(column.values), "is not the index of a value")
    kernels = table.kernels
    if kernels is not None:
        sizes = {len(kernels.row), len(kernels.name), len(kernels.device), len(kernels.duration_ns)}
        if len(sizes) > 1:
            raise errors.FormatError(f"{where}: the columns of kernels differ in length")
        good = (kernels.row >= 0) & (kernels.row < size)
        good &= (kernels.name >= 0) & (kernels.name < len(kernels.names))
        good[1:] &= kernels.row[1:] >= kernels.row[:-1]
        require("kernels", good, "has an invalid index or is out of order")
    if table.has("payload"):
        _check_payload(table, where)


def _check_payload(table: EventTable, where: str) -> None:
    words = 0 if table.payload_words is None else len(table.payload_words)
    by_site = np.array([len(types) for types in table.sites.field("arg_types")], np.int64)
    # In pieces, so that temporary arrays stay small.
    for first in range(0, len(table), _PIECE_ROWS):
        piece = slice(first, first + _PIECE_ROWS)
        payload = table.column("payload")[piece].astype(np.int64)
        need = by_site[table.column("site")[piece]] if len(by_site) else np.zeros_like(payload)
        kind = table.column("kind")[piece]
        for fixed, count in FIXED_WORDS.items():
            need = np.where(kind == fixed, count, need)
        bad = np.flatnonzero((payload != NO_PAYLOAD) & (payload + need > words))
        if len(bad):
            raise errors.FormatError(
                f"{where}: row {first + int(bad[0])}: payload lies outside payload_words"
            )


def _require_no_cycle(parent: Array, where: str) -> None:
    if bool((parent < np.arange(len(parent))).all()):
        return  # parents precede children, so there is no cycle
    up = np.append(parent, -1).astype(np.int64)
    steps = 1
    while steps < len(parent):  # pointer doubling: acyclic paths have ended after len(parent) steps
        up = up[up]
        steps *= 2
    if bool((up[:-1] >= 0).any()):
        row = int(np.argmax(up[:-1] >= 0))
        raise errors.FormatError(f"{where}: row {row}: its parents form a cycle")
