# SPDX-License-Identifier: Apache-2.0
"""Data flow of a recording: which versions of which storages each outermost op reads and makes.

A storage begins with version 0; each op that writes to it makes the next version. Which inputs an op writes to
follows from its schema (mutability.py), and what it allocates and frees from the memory records inside it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from fastprof.analysis.memory_categories.mutability import WrittenInputs
from fastprof.analysis.memory_categories.storages import OpStep, Storage
from fastprof.model.table import EventTable

__all__ = ["FlowNode", "Version", "data_flow"]

Version = tuple[int, int]  # storage index, version


@dataclass
class FlowNode:
    """One step of the flow. reads: versions that exist before it. makes: those that exist after it.

    written: the subset of `reads` that it overwrote. created, freed: storages that it allocated or freed;
    temporaries: storages in both. Storages that are the input of no op are omitted.
    """

    step: OpStep
    reads: set[Version] = field(default_factory=set)
    written: set[Version] = field(default_factory=set)
    makes: set[Version] = field(default_factory=set)
    temporaries: set[int] = field(default_factory=set)
    created: set[int] = field(default_factory=set)
    freed: set[int] = field(default_factory=set)

    @property
    def in_backward(self) -> bool:
        """Whether this step is a backward function or runs inside one."""
        return self.step.in_backward


def data_flow(
    table: EventTable,
    storages: Sequence[Storage],
    steps: Sequence[OpStep],
    written_inputs: WrittenInputs,
) -> list[FlowNode]:
    """Return the nodes in time order, one per step that has storages with versions."""
    version = [0] * len(storages)
    names, site = table.sites.names, table.column("site")
    overloads = table.coded.get("overload_name")
    schemas: dict[tuple[str, str], Sequence[bool | None]] = {}
    nodes = []
    for step in steps:
        node = FlowNode(step)
        verdicts: dict[int, set[bool | None]] = {}
        for touch in step.touches:
            key = (names[site[touch.row]], (overloads[touch.row] if overloads else None) or "")
            schema = schemas.get(key)
            if schema is None:
                schema = schemas[key] = written_inputs(*key)
            known = schema[touch.position] if touch.position < len(schema) else None
            verdicts.setdefault(touch.storage, set()).add(known)
        for change in step.allocations:
            if storages[change.storage].is_input:
                (node.freed if change.is_free else node.created).add(change.storage)
        node.temporaries = node.created & node.freed
        for storage, verdict in verdicts.items():
            if storage in node.created:
                continue
            node.reads.add((storage, version[storage]))
            # Without a schema, an input is assumed to be written.
            if storage not in node.freed and (True in verdict or verdict == {None}):
                node.written.add((storage, version[storage]))
                version[storage] += 1
                node.makes.add((storage, version[storage]))
        node.reads.update((s, version[s]) for s in node.freed - node.created)
        node.makes.update((s, 0) for s in node.created - node.freed)
        if node.reads or node.makes or node.temporaries:
            nodes.append(node)
    return nodes
