# SPDX-License-Identifier: Apache-2.0
"""fastprof.table: EventTable and what it is made of. The public path of model/table.py."""

from __future__ import annotations

from fastprof.model.table import (
    CODED_COLUMNS,
    COLUMNS,
    NO_PARENT,
    NO_PAYLOAD,
    CodedColumn,
    ColumnSpec,
    EventFlag,
    EventKind,
    EventTable,
    KernelTable,
    Site,
    SiteTable,
    Track,
    TrackTable,
)

__all__ = [
    "CODED_COLUMNS",
    "COLUMNS",
    "NO_PARENT",
    "NO_PAYLOAD",
    "CodedColumn",
    "ColumnSpec",
    "EventFlag",
    "EventKind",
    "EventTable",
    "KernelTable",
    "Site",
    "SiteTable",
    "Track",
    "TrackTable",
]
