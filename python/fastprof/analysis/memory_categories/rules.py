# SPDX-License-Identifier: Apache-2.0
"""Rules that give versions of storages their category, from the data flow alone.

A rule is a function of the flow and the categories found so far; categorise() applies them in order.
Phases of a training step need no names: backward functions are marked by autograd, the optimizer's phase
is what lies between the backward pass and the last write to a parameter, the rest is forward.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from fastprof.analysis.memory_categories.flow import FlowNode, Version
from fastprof.analysis.memory_categories.kinds import Category
from fastprof.model.table import EventTable

__all__ = ["Categories", "categorise"]

_ACCUMULATE = "torch::autograd::AccumulateGrad"


class Categories:
    """Category of each version of a storage.

    Roles that a storage keeps for its life (gradient, parameter, optimizer state) come before that of
    temporaries, which comes before roles of single versions. The last role given to a storage counts,
    and the first one given to a version.
    """

    def __init__(self) -> None:
        self.of_storage: dict[int, Category] = {}
        self.temporaries: set[int] = set()
        self.of_version: dict[Version, Category] = {}

    def get(self, version: Version) -> Category | None:
        """Return the category of a version; None: unknown."""
        found = self.of_storage.get(version[0])
        if found is None and version[0] in self.temporaries:
            return Category.TEMPORARY
        return found or self.of_version.get(version)

    def add(self, version: Version, category: Category) -> None:
        """Set the category of a version that has none of its own yet."""
        self.of_version.setdefault(version, category)


def categorise(table: EventTable, nodes: Sequence[FlowNode]) -> Categories:
    """Return the categories of all versions in the flow."""
    found = Categories()
    for node in nodes:
        found.temporaries |= node.temporaries
    for storage in _gradients(table, nodes):
        found.of_storage[storage] = Category.GRADIENT
    _inputs(nodes, found)
    _parameters(nodes, found)
    _activations(nodes, found)
    _optimizer_state(nodes, found)
    _autograd_detail(nodes, found)
    return found


def _gradients(table: EventTable, nodes: Sequence[FlowNode]) -> Iterable[int]:
    """Yield the storages of gradients: what autograd's last node for a parameter keeps or adds to."""
    names, site = table.sites.names, table.column("site")
    for node in nodes:
        touches = node.step.touches
        if not touches or names[site[node.step.row]] != _ACCUMULATE:
            continue
        inner = [touch for touch in touches if touch.row != node.step.row]
        if inner and names[site[inner[0].row]] in ("aten::detach", "aten::add_"):
            yield inner[0].storage
        # A gradient that cannot be taken over is copied to new memory.
        yield from node.created - node.freed


_LEARNED = (Category.GRADIENT, Category.PARAMETER)


def _depend_on_gradient(nodes: Sequence[FlowNode], found: Categories) -> set[int]:
    """Return the storages of which some version depends on a gradient, or on what does.

    Versions are left out of account, so dependencies run in circles: repeated until nothing is added.
    """
    depends: set[int] = set()
    while True:
        before = len(depends)
        for node in nodes:
            of_gradient = {
                version[0]
                for version in node.reads
                if version[0] in depends or found.get(version) in _LEARNED
            }
            if of_gradient:
                depends |= of_gradient
                depends.update(storage for storage, _ in node.makes)
        if len(depends) == before:
            return depends


def _inputs(nodes: Sequence[FlowNode], found: Categories) -> None:
    """What leads to a gradient but depends on none in any of its versions, made outside of backward."""
    depends = _depend_on_gradient(nodes, found)
    leads: set[Version] = set()
    for node in reversed(nodes):
        versions = node.reads | node.makes
        if any(version in leads or found.get(version) in _LEARNED for version in versions):
            leads |= versions
    for node in nodes:
        if node.in_backward:
            leads -= node.makes
    for version in leads:
        if version[0] not in depends:
            found.add(version, Category.INPUT)


def _parameters(nodes: Sequence[FlowNode], found: Categories) -> None:
    """What ops of the forward pass read beside inputs, leads to a gradient, and depends on one."""

    def is_gradient(version: Version) -> bool:
        return found.get(version) is Category.GRADIENT

    forward = {
        version for node in nodes for version in node.reads | node.makes
        if found.get(version) is Category.INPUT
    }  # fmt: skip
    candidates: set[Version] = set()
    for node in nodes:
        if node.in_backward or forward.isdisjoint(node.reads):
            continue
        if any(map(is_gradient, node.reads | node.makes)):
            continue
        forward |= node.makes
        candidates |= node.reads - forward
    used: set[Version] = set()
    for node in reversed(nodes):
        if any(is_gradient(version) or version in used for version in node.makes):
            used |= node.reads
    storages = {storage for storage, _ in candidates & used}
    for storage in storages & _depend_on_gradient(nodes, found):
        found.of_storage[storage] = Category.PARAMETER


def _activations(nodes: Sequence[FlowNode], found: Categories) -> None:
    """What ops of the forward pass make of inputs and activations."""
    required = {Category.INPUT, Category.ACTIVATION}
    allowed = {*required, Category.PARAMETER, Category.TEMPORARY}
    for node in nodes:
        read = {found.get(version) for version in node.reads}
        if read & required and read <= allowed and not node.in_backward:
            for version in node.makes:
                found.add(version, Category.ACTIVATION)


def _optimizer_state(nodes: Sequence[FlowNode], found: Categories) -> None:
    """What the optimizer's phase writes to, or makes and leaves behind, beside parameters and gradients."""
    taken = (Category.GRADIENT, Category.PARAMETER)
    for first, last in _optimizer_phases(nodes, found):
        phase = nodes[first:last]
        freed = {storage for node in phase for storage in node.freed}
        for node in phase:
            read = {found.get(version) for version in node.reads}
            if read & {Category.ACTIVATION, Category.INPUT}:
                continue  # a metric or a log, kept between the passes
            for storage, _ in node.makes:
                if storage not in freed and found.of_storage.get(storage) not in taken:
                    found.of_storage[storage] = Category.OPTIMIZER_STATE


def _optimizer_phases(nodes: Sequence[FlowNode], found: Categories) -> Iterable[tuple[int, int]]:
    """Yield [first, last) of the runs of nodes that begin behind a backward pass and end with its last
    write to a parameter."""
    begin = last = -1
    for i, node in enumerate(nodes):
        if node.in_backward:
            if last > begin >= 0:
                yield begin, last
            begin, last = i + 1, -1
        elif any(found.of_storage.get(storage) is Category.PARAMETER for storage, _ in node.written):
            last = i + 1
    if last > begin >= 0:
        yield begin, last


def _autograd_detail(nodes: Sequence[FlowNode], found: Categories) -> None:
    """What else backward functions make."""
    prior = (None, Category.AUTOGRAD_DETAIL)
    for node in nodes:
        if not node.in_backward:
            continue
        for storage, version in sorted(node.makes):
            if version == 0 or found.get((storage, version - 1)) in prior:
                found.add((storage, version), Category.AUTOGRAD_DETAIL)
