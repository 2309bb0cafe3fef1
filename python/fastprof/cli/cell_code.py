# SPDX-License-Identifier: Apache-2.0
"""CellCode: the code of a notebook's cell, which a magic runs as IPython runs a cell.

IPython's own syntax, AST transformers, top-level await and the display of a last expression work as without the magic,
and the traceback of an error begins in the cell.
"""

from __future__ import annotations

import ast
import asyncio
import contextlib
import inspect
import sys
from types import CodeType, TracebackType
from typing import Any

from fastprof.base import errors

__all__ = ["CellCode"]


class CellCode:
    """Compiled code of a cell.

    The constructor raises SyntaxError as the compiler does, and errors.UnavailableError for a cell that cannot
    run here.
    """

    def __init__(self, shell: Any, source: str) -> None:
        self._shell = shell
        text = shell.transform_cell(source)
        # The file name under which tracebacks and the report look the cell's lines up.
        self._file = shell.compile.cache(text, shell.execution_count, raw_code=source)
        awaits = getattr(ast, "PyCF_ALLOW_TOP_LEVEL_AWAIT", 0) if shell.autoawait else 0
        with shell.compile.extra_flags(awaits):
            tree = shell.transform_ast(shell.compile.ast_parse(text, filename=self._file))
            self._codes = [shell.compile(part, self._file, mode) for part, mode in _parts(tree)]
        if any(code.co_flags & inspect.CO_COROUTINE for code in self._codes) and _loop_runs():
            raise errors.UnavailableError(
                "await at the top of a cell cannot run under %%fastprof in this kernel. Leave out the magic and"
                " write `with fastprof.profile() as prof:` around it."
            )

    def run_under(self, profiler: Any, label: str, local_ns: Any) -> None:
        """Run the code in the user's namespace while `profiler` records, in a range named `label`.

        The value of a last expression is shown after the profile has ended, so that the profile does not
        contain IPython's work. local_ns: names of the function that contains a line magic, or None. The profile
        has ended when this returns or raises; the code's exceptions propagate.
        """
        from fastprof import record_function

        value = None
        names = self._shell.user_ns  # before the profile: reading it calls a function of IPython
        try:
            with profiler, record_function(label):
                for code in self._codes:
                    value = self._run(code, names, local_ns)
        except BaseException as error:
            self._trim_traceback(error)
            raise
        sys.displayhook(value)  # shows nothing for None, the value of statements

    def _run(self, code: CodeType, names: Any, local_ns: Any) -> Any:
        result = eval(code, names, names if local_ns is None else local_ns)
        if code.co_flags & inspect.CO_COROUTINE:
            return self._shell.loop_runner(result)
        return result

    def _trim_traceback(self, error: BaseException) -> None:
        """Make IPython show the error's traceback from the cell's frame on, without those of fastprof."""
        trace = error.__traceback__
        while trace is not None and trace.tb_frame.f_code.co_filename != self._file:
            trace = trace.tb_next
        if trace is None:
            return
        first: TracebackType = trace
        shell = self._shell

        def render() -> Any:
            tb = shell.InteractiveTB
            return tb.structured_traceback(type(error), error, first, tb_offset=0)

        # A class may forbid attributes: then our frames are shown, too.
        with contextlib.suppress(Exception):
            error._render_traceback_ = render  # type: ignore[attr-defined]


def _parts(tree: ast.Module) -> list[tuple[Any, str]]:
    """Return (node, compiler mode) of the statements and of a last expression, whose value is shown."""
    last = tree.body[-1] if tree.body else None
    if isinstance(last, ast.Expr):
        first = tree.body[:-1]
        parts: list[tuple[Any, str]] = [(ast.Expression(last.value), "eval")]
        return [(ast.Module(first, tree.type_ignores), "exec"), *parts] if first else parts
    return [(tree, "exec")]


def _loop_runs() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True
