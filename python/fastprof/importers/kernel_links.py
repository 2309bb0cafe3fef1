# SPDX-License-Identifier: Apache-2.0
"""Device activities of an imported trace: their columns, and the op that launched each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from fastprof.model.table import EventTable, KernelTable

__all__ = ["link_kernels"]

_WORK = ("kernel", "gpu_memcpy", "gpu_memset", "hpu_op", "mtia_ccp_events")


def link_kernels(
    table: EventTable,
    device_rows: Sequence[tuple[int, int, int, int]],
    links: Sequence[tuple[int, int, bool]],
) -> EventTable:
    """Return the table with device columns and kernels.

    device_rows: (row, DeviceType, device index, stream). links: (row, external id, launches). A
    kernel belongs to the launching row with its external id; if there are several, to the last,
    which is the innermost op.
    """
    columns: dict[str, Any] = {}
    size = len(table)
    if device_rows:
        rows, types, indices, streams = (
            np.array(c, np.int64) for c in zip(*device_rows, strict=True)
        )
        for name, values, default in (
            ("device_type", types, np.zeros(size, np.int64)),
            ("device_index", indices, np.zeros(size, np.int64)),
            ("device_resource_id", streams, table.thread.copy()),
        ):
            default[rows] = values
            columns[name] = default
    if links:
        linked, launcher = np.zeros(size, np.int64), np.zeros(size, np.int64)
        for row, external, launches in links:
            (launcher if launches else linked)[row] = min(external, (1 << 63) - 1)
        columns["external_id"] = launcher
        columns["linked_correlation_id"] = linked
    kernels = _kernels(table, device_rows, links)
    return table.with_columns(columns, kernels=kernels) if columns else table


def _kernels(
    table: EventTable,
    device_rows: Sequence[tuple[int, int, int, int]],
    links: Sequence[tuple[int, int, bool]],
) -> KernelTable | None:
    op_of = {external: row for row, external, launches in links if launches}
    external_of = {row: external for row, external, launches in links if not launches}
    categories = table.sites.field("category")
    site = table.column("site")
    found: list[tuple[int, int, int]] = []
    for row, _, index, _ in device_rows:
        op = op_of.get(external_of.get(row, 0))
        if op is not None and categories[int(site[row])] in _WORK:
            found.append((op, row, index))
    if not found:
        return None
    ops, rows, indices = (np.array(column, np.int64) for column in zip(*found, strict=True))
    return KernelTable.sorted(
        ops,
        table.name_id[rows].astype(np.int32),
        indices.astype(np.int32),
        table.duration_ns[rows],
        table.names,
    )
