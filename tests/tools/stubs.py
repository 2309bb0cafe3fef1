# SPDX-License-Identifier: Apache-2.0
"""The stub of the native module: ``stubs.py --write`` makes python/fastprof/_core.pyi from the built module.

A test compares the stub in the tree with the contents of the built module. The stub has
docstrings only for the names that fastprof exports (an editor shows them); the built module has all.
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tempfile
from pathlib import Path

STUB = Path(__file__).resolve().parents[2] / "python" / "fastprof" / "_core.pyi"
HEADER = """# SPDX-License-Identifier: Apache-2.0
# Written by `make stubs` from the built module; do not edit. The built module has the docstrings.
from __future__ import annotations

import typing
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy
import numpy.typing

_Int = typing.SupportsInt | typing.SupportsIndex
_Float = typing.SupportsFloat | typing.SupportsIndex
_Array = numpy.ndarray[Any, numpy.dtype[Any]]
_Int64s = numpy.typing.NDArray[numpy.int64]

"""

# Text of the generator's annotations -> a shorter name of the same type, which HEADER defines or imports.
SHORT = {
    "typing.SupportsInt | typing.SupportsIndex": "_Int",
    "typing.SupportsFloat | typing.SupportsIndex": "_Float",
    "numpy.ndarray[typing.Any, numpy.dtype[typing.Any]]": "_Array",
    "numpy.typing.NDArray[numpy.int64]": "_Int64s",
    "collections.abc.": "",
    "typing.Any": "Any",
}


# Functions that fastprof exports as they are.
EXPORTED = {"counter", "default_node_id", "flow_begin", "flow_end", "mark", "set_thread_name"}

# Types written against CPython's C API carry no signatures that the generator could read.
HAND_WRITTEN = {
    "OpenRange": '''
class OpenRange:
    """A begun range, ended by end() on any thread."""

    @property
    def active(self) -> bool:
        """Recorded and not ended."""

    def end(self) -> bool:
        """Record the end, on whatever thread; False when it was ended before."""
''',
    "record_function": '''
_F = typing.TypeVar("_F", bound=collections.abc.Callable[..., typing.Any])


class record_function:
    """A named range: a context manager and a decorator.

    Keywords that are numbers (of NumPy, too), booleans, strings, or lists and tuples of these are its arguments;
    others are left out.
    """

    def __init__(
        self,
        name: str,
        args: str | None = None,
        *,
        shapes: collections.abc.Sequence[collections.abc.Sequence[int]] | None = None,
        flops: float | None = None,
        node_id: int | None = None,
        **kwargs: typing.Any,
    ) -> None: ...
    @property
    def name(self) -> str:
        """The name given."""

    def __enter__(self) -> record_function:
        """Begin the range on the calling thread."""

    def __exit__(
        self, kind: object = None, error: object = None, trace: object = None, /
    ) -> None:
        """End it. Exceptions pass through."""

    def __call__(self, function: _F) -> _F:
        """Decorate: a range around each call."""

    def _call_end_callbacks_on_future(self, future: typing.Any) -> typing.Any:
        """End the range when the future completes; see fastprof.record.ranges."""

    def _detach(self) -> OpenRange:
        """Hand the end of the open range to what is returned."""

    def _begin_async(self) -> OpenRange:
        """Begin a range that may overlap others of its thread; what is returned ends it."""
''',
}


class Types(ast.NodeTransformer):
    """Removes imports, ``__all__`` and the docstrings of private names from the generator's module."""

    def visit_Module(self, node: ast.Module) -> ast.Module:
        kept = [
            item
            for item in node.body
            if not isinstance(item, ast.Import | ast.ImportFrom)
            and not (isinstance(item, ast.AnnAssign) and ast.unparse(item.target) == "__all__")
        ]
        node.body = [self.visit(item) for item in kept if not self.is_text(item)]
        return node

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.ClassDef:
        if node.name in HAND_WRITTEN:
            self.tidy(node)
        else:
            body = [self.visit(item) for item in node.body if not self.is_text(item)]
            node.body = body or [ast.Expr(ast.Constant(...))]
        return node

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.FunctionDef:
        if node.name in EXPORTED:
            self.tidy(node)
        else:
            node.body = [ast.Expr(ast.Constant(...))]
        return node

    def tidy(self, node: ast.AST) -> None:
        """Write docstrings of one line on that line."""
        for item in ast.walk(node):
            if isinstance(item, ast.Expr) and self.is_text(item):
                item.value = ast.Constant(ast.literal_eval(item.value).strip())

    @staticmethod
    def is_text(node: ast.stmt) -> bool:
        """Return whether the statement is a docstring."""
        return (
            isinstance(node, ast.Expr)
            and isinstance(node.value, ast.Constant)
            and isinstance(node.value.value, str)
        )


def generate() -> str:
    """Return the text of the stub for the module that ``import fastprof._core`` finds.

    Raises subprocess.CalledProcessError when the generator fails, for example on a type it cannot name.
    """
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(
            [
                *(sys.executable, "-m", "pybind11_stubgen", "fastprof._core"),
                *("-o", folder, "--exit-code", "--numpy-array-use-type-var"),
            ],
            check=True,
            capture_output=True,
            text=True,
        )
        found = list(Path(folder).rglob("_core.pyi")) + list(
            Path(folder).rglob("_core/__init__.pyi")
        )
        text = found[0].read_text()
    text = re.sub(r"^(\w+: str) = .*$", r"\1", text, flags=re.MULTILINE)  # differs between builds
    for name, written in HAND_WRITTEN.items():
        pattern = rf"^class {name}(\(.*\))?:\n(^(    .*)?\n)*"
        text, count = re.subn(
            pattern, lambda _, w=written: w.lstrip("\n"), text, flags=re.MULTILINE
        )
        if count != 1:
            raise LookupError(f"the generated stub has {count} classes {name}")
    text = ast.unparse(ast.fix_missing_locations(Types().visit(ast.parse(text))))
    for long, short in SHORT.items():
        text = text.replace(long, short)
    formatted = subprocess.run(
        [sys.executable, "-m", "ruff", "format", "--stdin-filename", "core_stub.pyi", "-"],
        input=HEADER + text,
        check=True,
        capture_output=True,
        text=True,
    )
    return formatted.stdout


if __name__ == "__main__":
    if sys.argv[1:] == ["--write"]:
        STUB.write_text(generate())
    else:
        print(generate(), end="")
