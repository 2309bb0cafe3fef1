# SPDX-License-Identifier: Apache-2.0
"""Hints on why a function's own code is slow, from its source: repeated copies, polling, searches. Any thread."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import NamedTuple, TypeAlias

__all__ = ["Hint", "hint_of"]

_Function: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef | ast.Module
_MAX_BYTES = 1 << 20
_TEMPORARIES = (
    3  # arithmetic operators of one expression from which its temporaries are pointed out
)


class Hint(NamedTuple):
    """What a function does that costs time. line: where. what: in words. remedy: what to do."""

    line: int
    what: str
    remedy: str


def hint_of(file: str, line: int) -> Hint | None:
    """Return the first hint on the function defined at `line` of a source file; None without one.

    line: 1 and a file without a function there: the module's own code. A file that cannot be read has no hints.
    """
    try:
        with open(file, "rb") as source:
            tree = ast.parse(source.read(_MAX_BYTES))
    except (OSError, SyntaxError, ValueError, RecursionError):
        return None
    function = _function_at(tree, line)
    if function is None:
        return None
    return next(_hints(function, _imports_numpy(tree)), None)


def _function_at(tree: ast.Module, line: int) -> _Function | None:
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            first = node.decorator_list[0].lineno if node.decorator_list else node.lineno
            if first == line:
                return node
    return tree if line <= 1 else None


def _own_nodes(node: ast.AST) -> Iterator[ast.AST]:
    """Yield the nodes inside of a node, without those of functions and classes defined in it."""
    for child in ast.iter_child_nodes(node):
        if not isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)):
            yield child
            yield from _own_nodes(child)


def _hints(function: _Function, with_numpy: bool) -> Iterator[Hint]:
    empty = _names_set_to(function, (ast.Constant, ast.JoinedStr))
    lists = _names_set_to(function, (ast.List, ast.ListComp))
    loops = [n for n in _own_nodes(function) if isinstance(n, (ast.For, ast.AsyncFor, ast.While))]
    for loop in loops:
        if isinstance(loop, ast.While) and _polls(loop):
            yield Hint(
                loop.lineno,
                "it polls in a loop that never waits",
                "Wait for the event itself, or sleep between two looks",
            )
        for node in _own_nodes(loop):
            if (name := _appended(node)) and name in empty:
                yield Hint(
                    node.lineno,  # type: ignore[attr-defined]
                    f"it builds {name} piece by piece, each time copying what is there",
                    "Collect the pieces in a list and join them once",
                )
            if isinstance(node, ast.Call) and _at_front(node):
                yield Hint(
                    node.lineno,
                    "it inserts or removes at the front of a list, each time moving the rest",
                    "Use collections.deque",
                )
            if isinstance(node, ast.Compare) and _searches(node, lists):
                yield Hint(
                    node.lineno, "it searches a list in a loop", "Use a set or dict for membership"
                )
            if with_numpy and isinstance(node, ast.BinOp) and _operators(node) >= _TEMPORARIES:
                yield Hint(
                    node.lineno,
                    "its expression makes a temporary array for each operator",
                    "Compute in place (out=, +=), or fuse the expression",
                )


def _names_set_to(function: _Function, kinds: tuple[type[ast.AST], ...]) -> set[str]:
    """Return the variables that are set to a text, bytes or display of one of the kinds."""
    found = set()
    for node in _own_nodes(function):
        if isinstance(node, ast.Assign) and isinstance(node.value, kinds):
            value = node.value
            if isinstance(value, ast.Constant) and not isinstance(value.value, (str, bytes)):
                continue
            found |= {target.id for target in node.targets if isinstance(target, ast.Name)}
    return found


def _appended(node: ast.AST) -> str:
    """Return the variable of `x += ...` and `x = x + ...`; "" for other nodes."""
    if isinstance(node, ast.AugAssign) and isinstance(node.op, ast.Add):
        return node.target.id if isinstance(node.target, ast.Name) else ""
    if not (isinstance(node, ast.Assign) and isinstance(node.value, ast.BinOp)):
        return ""
    target: ast.expr = node.targets[0]
    left: ast.expr = node.value
    while isinstance(left, ast.BinOp) and isinstance(left.op, ast.Add):
        left = left.left
    if not (isinstance(target, ast.Name) and isinstance(left, ast.Name)):
        return ""
    return target.id if target.id == left.id else ""


def _polls(loop: ast.While) -> bool:
    """Return whether a loop calls something in its condition and does nothing but that."""
    asks = any(isinstance(node, ast.Call) for node in ast.walk(loop.test))
    return asks and all(isinstance(node, (ast.Pass, ast.Continue)) for node in loop.body)


def _at_front(call: ast.Call) -> bool:
    function, first = call.func, call.args[0] if call.args else None
    named = isinstance(function, ast.Attribute) and function.attr in ("insert", "pop")
    return named and isinstance(first, ast.Constant) and first.value == 0


def _searches(node: ast.Compare, lists: set[str]) -> bool:
    inside = isinstance(node.ops[0], (ast.In, ast.NotIn))
    where = node.comparators[0]
    return inside and isinstance(where, ast.Name) and where.id in lists


def _operators(node: ast.AST) -> int:
    return sum(isinstance(inner, ast.BinOp) for inner in ast.walk(node))


def _imports_numpy(tree: ast.Module) -> bool:
    names = {
        alias.name.split(".")[0]
        for node in ast.walk(tree)
        if isinstance(node, (ast.Import, ast.ImportFrom))
        for alias in (
            node.names if isinstance(node, ast.Import) else [ast.alias(node.module or "")]
        )
    }
    return "numpy" in names
