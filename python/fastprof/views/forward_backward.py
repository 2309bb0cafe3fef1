# SPDX-License-Identifier: Apache-2.0
"""Arrows from a forward op to its backward function: flow_id, flow_type and flow_start of events.

Follows csrc/include/fastprof/export/forward_backward.hpp, which writes these arrows to traces.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from fastprof.model.table import EventTable
from fastprof.views.backward_stacks import BACKWARD_FUNCTION

__all__ = ["FORWARD_BACKWARD_FLOW", "Flows", "forward_backward_flows"]

Array: TypeAlias = NDArray[Any]
FORWARD_BACKWARD_FLOW = 1  # PyTorch's value of FunctionEvent.flow_type


@dataclass(frozen=True)
class Flows:
    """Per table row: id, shared by both ends of an arrow (0: no arrow); start: the arrow starts here."""

    id: Array
    start: Array


def forward_backward_flows(table: EventTable) -> Flows | None:
    """Return the arrows from forward ops to backward functions; None if there are none.

    Ids count from 1, in time order of the backward functions.
    """
    if not (table.has("sequence_nr") and table.has("fwd_thread")):
        return None
    sequence, forward_thread = table.column("sequence_nr"), table.column("fwd_thread")
    numbered = sequence >= 0
    is_backward = numbered & (forward_thread > 0) & (table.column("scope") == BACKWARD_FUNCTION)
    backward = np.flatnonzero(is_backward)
    forward = np.flatnonzero(
        numbered & (forward_thread <= 0) & np.isin(sequence, sequence[backward])
    )
    rows = np.concatenate([backward, forward])
    thread = np.concatenate([forward_thread[backward], table.recording_thread[forward]])
    by_node = np.lexsort((rows, table.start_ns[rows], sequence[rows], thread))
    rows, thread = rows[by_node], thread[by_node]
    # Backward functions that directly follow a forward op of the same node: a node links once.
    ends = 1 + np.flatnonzero(
        is_backward[rows[1:]]
        & ~is_backward[rows[:-1]]
        & (sequence[rows[1:]] == sequence[rows[:-1]])
        & (thread[1:] == thread[:-1])
    )
    if not len(ends):
        return None
    last, first = rows[ends], rows[ends - 1]
    in_time = np.lexsort((last, table.start_ns[last]))
    flows = Flows(np.zeros(len(table), np.int64), np.zeros(len(table), np.bool_))
    flows.id[last[in_time]] = flows.id[first[in_time]] = 1 + np.arange(len(in_time))
    flows.start[first] = True
    return flows
