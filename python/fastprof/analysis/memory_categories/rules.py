# SPDX-License-Identifier: Apache-2.0
"""Rules that assign categories to versions of storages, from the data flow alone.

A rule is a function of the flow and the categories found so far; categorise() applies them in order.
The phases of a training step are found without names: autograd marks backward functions, the optimizer's phase
extends from the backward pass to the last write to a parameter, and the rest is forward.
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

    A category of the whole storage (gradient, parameter, optimizer state) takes precedence over TEMPORARY,
    which takes precedence over the category of a single version. If several are assigned, the last one of a
    storage and the first one of a version apply.
    """

    def __init__(self) -> None:
        self.of_storage: dict[int, Category] = {}
        self.temporaries: set[int] = set()
        self.of_version: dict[Version, Category] = {}
        self.step_ends_ns: list[int] = []  # begin of the last node of each optimizer phase

    def get(self, version: Version) -> Category | None:
        """Return the category of a version; None: unknown."""
        found = self.of_storage.get(version[0])
        if found is None and version[0] in self.temporaries:
            return Category.TEMPORARY
        return found or self.of_version.get(version)

    def add(self, version: Version, category: Category) -> None:
        """Set the category of a version, unless it has one of its own."""
        self.of_version.setdefault(version, category)


def categorise(
    table: EventTable, nodes: Sequence[FlowNode], parameters: Iterable[int] = ()
) -> Categories:
    """Return the categories of all versions in the flow. parameters: storages that are known to be parameters."""
    found = Categories()
    for node in nodes:
        found.temporaries |= node.temporaries
    for storage in _gradients(table, nodes):
        found.of_storage[storage] = Category.GRADIENT
    for storage in parameters:
        found.of_storage[storage] = Category.PARAMETER
    _inputs(nodes, found)
    phases = _parameters(nodes, found)
    _inputs(
        nodes, found
    )  # again: parameters are known now, and numbers passed to the optimizer's ops are inputs, too
    found.step_ends_ns = [nodes[phase.stop - 1].step.start_ns for phase in phases]
    _activations(nodes, phases, found)
    _optimizer_state(nodes, phases, found)
    _autograd_detail(nodes, found)
    return found


def _gradients(table: EventTable, nodes: Sequence[FlowNode]) -> Iterable[int]:
    """Yield the storages of gradients, which autograd's AccumulateGrad keeps or adds to."""
    names, site = table.sites.names, table.column("site")
    for node in nodes:
        touches = node.step.touches
        if not touches or names[site[node.step.row]] != _ACCUMULATE:
            continue
        inner = [touch for touch in touches if touch.row != node.step.row]
        if inner and names[site[inner[0].row]] in ("aten::detach", "aten::add_"):
            yield inner[0].storage
        # AccumulateGrad copies a gradient whose memory it cannot keep.
        yield from node.created - node.freed


_LEARNED = (Category.GRADIENT, Category.PARAMETER)


def _depend_on_gradient(nodes: Sequence[FlowNode], found: Categories) -> set[int]:
    """Return the storages with a version that depends on a gradient or parameter, directly or indirectly.

    Dependencies are between storages, not versions, and can be cyclic: passes repeat until one adds nothing.
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
    """Mark inputs: versions that a gradient or parameter depends on, made outside of the backward pass, in storages
    that depend on neither."""
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


def _parameters(nodes: Sequence[FlowNode], found: Categories) -> list[range]:
    """Mark parameters: storages that forward ops read beside inputs, lead to a gradient, and depend on one.

    Returns the optimizer's phases, as ranges of node indices. Between two backward passes the optimizer comes
    first; the parameters used in earlier passes determine where its phase ends.
    """
    used: set[Version] = set()
    for node in reversed(nodes):
        made = (
            found.get(version) is Category.GRADIENT or version in used for version in node.makes
        )
        if any(made):
            used |= node.reads
    depends = _depend_on_gradient(nodes, found)
    forward = {
        version for node in nodes for version in node.reads | node.makes
        if found.get(version) is Category.INPUT
    }  # fmt: skip
    parameters: set[int] = set()
    phases = []
    for between in _between_backward_passes(nodes):
        phase = _optimizer_phase(nodes, between, parameters, found)
        if phase:
            phases.append(phase)
        for i in range(phase.stop, between.stop):
            node = nodes[i]
            if forward.isdisjoint(node.reads) or any(
                found.get(version) is Category.GRADIENT for version in node.reads | node.makes
            ):
                continue
            forward |= node.makes
            chosen = {version for version in node.reads - forward if version in used}
            parameters |= {storage for storage, _ in chosen} & depends
    for storage in parameters:
        found.of_storage[storage] = Category.PARAMETER
    return phases


def _between_backward_passes(nodes: Sequence[FlowNode]) -> Iterable[range]:
    begin = 0
    for i, node in enumerate(nodes):
        if node.in_backward:
            if begin < i:
                yield range(begin, i)
            begin = i + 1
    yield range(begin, len(nodes))


def _optimizer_phase(
    nodes: Sequence[FlowNode], between: range, parameters: set[int], found: Categories
) -> range:
    """Return the nodes up to the last one that updates a parameter with values computed from gradients."""
    of_gradient: set[Version] = set()
    stop = between.start
    for i in between:
        node = nodes[i]
        if not any(
            version in of_gradient or found.get(version) is Category.GRADIENT
            for version in node.reads
        ):
            continue
        # Values computed from a parameter belong to the next forward pass.
        of_gradient |= {version for version in node.makes if version[0] not in parameters}
        if any(storage in parameters for storage, _ in node.written):
            stop = i + 1
    return range(between.start, stop)


def _activations(nodes: Sequence[FlowNode], phases: Sequence[range], found: Categories) -> None:
    """Mark activations: versions that forward ops make from inputs and activations."""
    required = {Category.INPUT, Category.ACTIVATION}
    allowed = {*required, Category.PARAMETER, Category.TEMPORARY}
    elsewhere = {i for phase in phases for i in phase}
    for i, node in enumerate(nodes):
        read = {found.get(version) for version in node.reads}
        if node.in_backward or not read & required or not read <= allowed:
            continue
        if i in elsewhere and (Category.ACTIVATION not in read or Category.PARAMETER in read):
            continue  # the optimizer's own; the others are metrics and logs of the pass before
        for version in node.makes:
            found.add(version, Category.ACTIVATION)


def _optimizer_state(nodes: Sequence[FlowNode], phases: Sequence[range], found: Categories) -> None:
    """Mark optimizer state: storages that the optimizer makes or writes to and that live until its next phase (or
    the end)."""
    freed_at = {storage: i for i, node in enumerate(nodes) for storage in node.freed}
    for k, phase in enumerate(phases):
        until = phases[k + 1].start if k + 1 < len(phases) else len(nodes)
        for i in phase:
            node = nodes[i]
            if any(found.get(version) is Category.ACTIVATION for version in node.reads):
                continue  # a metric or a log, kept between the passes
            for storage, _ in node.makes:
                if found.of_storage.get(storage) in _LEARNED:
                    continue
                if freed_at.get(storage, until) >= until:
                    found.of_storage[storage] = Category.OPTIMIZER_STATE
                elif storage in node.created and node.step.is_op:
                    found.temporaries.add(storage)


def _autograd_detail(nodes: Sequence[FlowNode], found: Categories) -> None:
    """Mark the remaining versions that backward functions make."""
    prior = (None, Category.AUTOGRAD_DETAIL)
    for node in nodes:
        if not node.in_backward:
            continue
        for storage, version in sorted(node.makes):
            if version == 0 or found.get((storage, version - 1)) in prior:
                found.add((storage, version), Category.AUTOGRAD_DETAIL)
