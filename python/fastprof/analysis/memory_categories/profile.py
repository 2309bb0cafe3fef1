# SPDX-License-Identifier: Apache-2.0
"""MemoryProfile: allocations of a recording by category over time."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import NamedTuple

from fastprof.analysis.memory_categories.flow import FlowNode, Version, data_flow
from fastprof.analysis.memory_categories.kinds import Action, Category
from fastprof.analysis.memory_categories.mutability import WrittenInputs, written_by_name
from fastprof.analysis.memory_categories.rules import Categories, categorise
from fastprof.analysis.memory_categories.storages import OpStep, Storage, read_steps
from fastprof.base.cached_property import cached_property
from fastprof.model.table import EventTable
from fastprof.model.tree import EventTree

__all__ = ["MemoryProfile", "TimelineEntry"]


class TimelineEntry(NamedTuple):
    """A change of memory. `time_ns` is Unix time, -1 for storages from before the session.

    An INCREMENT_VERSION replaces `version` of the storage by `version + 1`.
    """

    time_ns: int
    action: Action
    storage: int  # index into MemoryProfile.storages
    version: int
    size_bytes: int


class MemoryProfile:
    """Storages, data flow and categories of a recording.

    table: with allocations and storages of op inputs (profile_memory=True, record_shapes=True).
    written_inputs: which inputs an op writes to; default: by the op's name.
    parameters: addresses of storages that are parameters at the recording's end. Other parameters are found in the
    data flow, if the recording contains a step of an optimizer.
    Reads the table once; immutable afterwards: any thread. Raises errors.ValueError if the table contains no
    allocations or no storages of op inputs.

        memory = prof.memory_profile()
        for entry in memory.timeline:
            print(entry.action, entry.size_bytes, memory.category(entry.storage, entry.version))
    """

    def __init__(
        self,
        table: EventTable | EventTree,
        written_inputs: WrittenInputs = written_by_name,
        parameters: Collection[int] = (),
    ) -> None:
        self.table = table.table if isinstance(table, EventTree) else table
        self.storages: list[Storage]
        self._steps: list[OpStep]
        self.storages, self._steps = read_steps(self.table)
        self.nodes: list[FlowNode] = data_flow(
            self.table, self.storages, self._steps, written_inputs
        )
        known = [
            one.index
            for one in self.storages
            if one.destroyed_ns is None and one.address in parameters
        ]
        self._categories: Categories = categorise(self.table, self.nodes, known)

    def category(self, storage: int, version: int) -> Category | None:
        """Return the category of a version of a storage; None if it is unknown, as for storages that no op reads."""
        if not self.storages[storage].is_input:
            return None
        return self._categories.get((storage, version))

    @property
    def training_steps(self) -> list[tuple[int, int]]:
        """[begin, end) of each training step in Unix ns. A step ends with the optimizer's last write."""
        ends = self._categories.step_ends_ns
        return list(zip([self.table.t0_ns, *ends], ends, strict=False))

    @cached_property
    def parents(self) -> Sequence[int]:
        """Row of the range around each row of the table, -1 for none."""
        rows: list[int] = self.table.column("parent").tolist()
        return rows

    @cached_property
    def categories(self) -> Mapping[Version, Category | None]:
        """Category by (storage, version), for all versions in the data flow."""
        versions = {v for node in self.nodes for v in node.reads | node.makes}
        versions |= {(storage, 0) for node in self.nodes for storage in node.temporaries}
        return {version: self._categories.get(version) for version in sorted(versions)}

    @cached_property
    def timeline(self) -> tuple[TimelineEntry, ...]:
        """All changes by time; first, at -1, storages from before the session."""
        entries = list(self._entries())
        entries.sort(key=lambda entry: (entry.time_ns, entry.action.value))
        return tuple(entries)

    def _entries(self) -> Iterator[TimelineEntry]:
        last: dict[int, int] = {}
        for node in self.nodes:
            for storage, version in node.written:
                last[storage] = version + 1
                size = self.storages[storage].size_bytes
                yield TimelineEntry(
                    node.step.start_ns, Action.INCREMENT_VERSION, storage, version, size
                )
        for one in self.storages:
            if one.created_ns is None:
                yield TimelineEntry(-1, Action.PREEXISTING, one.index, 0, one.size_bytes)
            else:
                yield TimelineEntry(one.created_ns, Action.CREATE, one.index, 0, one.size_bytes)
            if one.destroyed_ns is not None:
                version = last.get(one.index, 0)
                yield TimelineEntry(
                    one.destroyed_ns, Action.DESTROY, one.index, version, one.size_bytes
                )
