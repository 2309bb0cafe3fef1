# SPDX-License-Identifier: Apache-2.0
"""Run a script or module as the interpreter itself would: argv, __main__, sys.path, tracebacks, exit."""

from __future__ import annotations

import builtins
import importlib.machinery
import io
import os
import runpy
import sys
import threading
import types
import zipfile
from collections.abc import Callable, Sequence
from typing import Any

from fastprof import errors

__all__ = ["Program", "leave_as", "wait_for_threads"]


class Program:
    """A script, a folder or zip file with a __main__.py, or (is_module) a module by name.

    Raises errors.IoError when there is none.
    """

    def __init__(self, target: str, args: Sequence[str], is_module: bool) -> None:
        self.main = types.ModuleType("__main__")
        names: dict[str, Any] = self.main.__dict__
        names["__builtins__"] = builtins
        argv0 = target
        if not is_module:
            target = os.path.abspath(
                target
            )  # as the interpreter shows it in __file__ and tracebacks
        if is_module:
            self._first_path(os.getcwd())
            spec, code = self._module(target)
            argv0 = spec.origin or target
        elif os.path.isdir(target) or zipfile.is_zipfile(target):
            self._first_path(target)
            outer = sys.modules.pop("__main__")  # or its spec would be taken for that of the target
            try:
                spec, code = self._module("__main__")
            finally:
                sys.modules["__main__"] = outer
        else:
            spec, code = None, self._script(target)
            self._first_path(os.path.dirname(os.path.realpath(target)))
        self.code = code
        if spec is None:
            loader = importlib.machinery.SourceFileLoader("__main__", target)
            names.update(__file__=target, __loader__=loader, __package__=None, __spec__=None)
            names["__cached__"] = None
        else:
            names.update(__file__=spec.origin, __loader__=spec.loader, __spec__=spec)
            names.update(__package__=spec.parent, __cached__=spec.cached)
        names["__annotations__"] = {}
        sys.argv[:] = [argv0, *args]

    def run(self) -> None:
        """Run it in this thread; what it raises goes through."""
        sys.modules["__main__"] = self.main
        exec(self.code, self.main.__dict__)

    @staticmethod
    def _first_path(folder: str) -> None:
        # As the interpreter does: the first entry is that of the program, not ours.
        if not getattr(sys.flags, "safe_path", False):
            sys.path[0] = folder

    @staticmethod
    def _script(path: str) -> types.CodeType:
        try:
            with io.open_code(path) as file:
                source = file.read()
        except OSError as error:
            reason = error.strerror or str(error)
            raise errors.IoError(
                error.errno, f"cannot run {path}: {reason}; give a Python script, or -m MODULE"
            ) from None
        if path.endswith(".pyc"):
            loader = importlib.machinery.SourcelessFileLoader("__main__", path)
            code = loader.get_code("__main__")
            assert code is not None
            return code
        return compile(source, path, "exec", dont_inherit=True)

    @staticmethod
    def _module(name: str) -> tuple[importlib.machinery.ModuleSpec, types.CodeType]:
        details: Callable[[str], Any] = runpy._get_module_details  # type: ignore[attr-defined]
        try:
            _, spec, code = details(name)
        except ImportError as error:
            raise errors.IoError(2, f"cannot run the module {name}: {error}") from None
        return spec, code


def wait_for_threads() -> None:
    """Join the threads that the interpreter would wait for at exit."""
    current = threading.current_thread()
    while True:
        left = [t for t in threading.enumerate() if t is not current and not t.daemon]
        if not left:
            return
        for thread in left:
            thread.join()


def leave_as(error: BaseException) -> None:
    """Raise what the program raised; its traceback is shown without the frames of fastprof.

    The interpreter then ends the process as it would have: exit codes, the text of sys.exit("..."),
    and death by SIGINT after Ctrl-C.
    """
    shown = sys.excepthook

    def hook(
        kind: type[BaseException], value: BaseException, trace: types.TracebackType | None
    ) -> None:
        trace = _below_exec(trace)
        shown(kind, value.with_traceback(trace), trace)

    sys.excepthook = hook
    raise error


def _below_exec(trace: types.TracebackType | None) -> types.TracebackType | None:
    """The traceback from the program's first frame on; without one of its frames, nothing."""
    at = trace
    here = Program.run.__code__
    while at is not None:
        if at.tb_frame.f_code is here:
            return at.tb_next
        at = at.tb_next
    return None
