# SPDX-License-Identifier: Apache-2.0
"""Dynamo (torch.compile, torch.export): registers fastprof's classes as equivalents of torch's.

Dynamo recognises torch.profiler.record_function and torch.profiler.profile by identity and by isinstance. Before that,
its VariableBuilder consults two dictionaries: by id of the object, and by type. The entries made here map fastprof's
class to torch's class, and a range object to torch's variable. Source: torch/_dynamo/variables/builder.py and
ctx_manager.py, releases 2.6 to 2.15.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fastprof.adapters.torch.tracers import in_dynamo

__all__ = ["register"]

_kept: list[type] = []  # keeps the classes alive, because their ids are keys of the dictionaries


def register(ours: type, theirs: str) -> None:
    """Make Dynamo treat the class `ours` as torch.profiler.`theirs` ("record_function" or "profile").

    torch._dynamo must be loaded. Raises AttributeError or another exception if this torch lacks these dictionaries;
    entries made before the exception stay.
    """
    import torch
    from torch._dynamo.variables.builder import VariableBuilder

    torch_class = getattr(torch.profiler, theirs)
    _kept.append(ours)
    VariableBuilder._id_dispatch()[id(ours)] = _class_builder(torch_class)
    if theirs != "record_function":
        return
    build = _range_builder(torch_class)
    for table in _type_tables(VariableBuilder):
        table[ours] = build
    # Last, because older releases lack this interface.
    torch.compiler.substitute_in_graph(in_dynamo)(_true)


def _true() -> bool:
    return True


def _type_tables(builder: Any) -> list[dict[Any, Any]]:
    """Return the dictionaries by type: one, or one per value of config.trace_numpy (2.9 and later)."""
    by_numpy = getattr(builder, "_type_dispatch_impl", None)
    if by_numpy is None:
        return [builder._type_dispatch()]
    return [by_numpy(True), by_numpy(False)]


def _class_builder(torch_class: type) -> Callable[[Any, Any], Any]:
    def build(self: Any, value: Any) -> Any:
        from torch._dynamo.guards import GuardBuilder
        from torch._dynamo.variables import TorchCtxManagerClassVariable

        guard: Any = getattr(GuardBuilder, "CLASS_MATCH", None) or GuardBuilder.ID_MATCH
        self.install_guards(guard)
        return TorchCtxManagerClassVariable(torch_class, source=self.source)

    return build


def _range_builder(torch_class: Any) -> Callable[[Any, Any], Any]:
    def build(self: Any, value: Any) -> Any:
        from torch._dynamo.guards import GuardBuilder
        from torch._dynamo.variables import TorchCtxManagerClassVariable, ctx_manager

        self.install_guards(GuardBuilder.ID_MATCH)
        of_object = getattr(ctx_manager, "RecordFunctionVariable", None)
        if of_object is not None:
            return of_object(torch_class(value.name))
        from torch._dynamo.variables import ConstantVariable

        name = ConstantVariable.create(value.name)
        return TorchCtxManagerClassVariable(torch_class).call_function(self.tx, [name], {})

    return build
