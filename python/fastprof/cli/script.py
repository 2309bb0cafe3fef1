# SPDX-License-Identifier: Apache-2.0
"""Run a script, module or code as the interpreter would: same argv, __main__, sys.path, tracebacks and exit."""

from __future__ import annotations

import builtins
import errno
import importlib.machinery
import io
import os
import runpy
import sys
import threading
import types
import zipfile
from collections.abc import Callable
from typing import Any

from fastprof.base import errors
from fastprof.base.short_paths import absolute_path, working_folder
from fastprof.cli.program_call import ProgramCall

__all__ = ["Program", "end_threads", "ends_program", "leave_as"]

_left_as: BaseException | None = None


class Program:
    """A script, a folder or zip file with a __main__.py, a module, -c CODE, or standard input.

    The constructor prepares sys.path and sys.argv, and compiles the program; a module is found and compiled by load(),
    which runs code of the program: the packages that contain the module are imported. Both raise errors.IoError if
    there is no such program.
    """

    def __init__(self, call: ProgramCall) -> None:
        self.main = types.ModuleType("__main__")
        self.main.__dict__["__builtins__"] = builtins
        self.code: types.CodeType | None = None
        self._target = target = argv0 = call.target
        spec: importlib.machinery.ModuleSpec | None = None
        file: str | None = None
        if call.kind == "module":
            self._first_path(working_folder())
            argv0 = "-m"
        elif call.kind == "code":
            argv0 = "-c"
            self._first_path("")
            self.code = self._compile(target + "\n", "<string>")
        elif call.kind == "stdin":
            self._first_path("")
            self.code = self._compile(sys.stdin.buffer.read(), "<stdin>")
        else:
            # Absolute, as in the interpreter's own __file__ and tracebacks.
            file = absolute_path(target)
            if os.path.isdir(file) or zipfile.is_zipfile(file):
                self._first_path(file)
                outer = sys.modules.pop("__main__")  # otherwise its spec would be used
                try:
                    spec, self.code = self._module("__main__")
                except errors.IoError:
                    what = "folder" if os.path.isdir(file) else "zip file"
                    raise errors.IoError(
                        errno.ENOENT,
                        f"cannot run {target}: the {what} contains no __main__.py. Use the path of a "
                        "script, or -m MODULE.",
                    ) from None
                finally:
                    sys.modules["__main__"] = outer
            else:
                self.code = self._script(file)
                self._first_path(os.path.dirname(os.path.realpath(file)))
        self._set_names(spec, file)
        sys.argv[:] = [argv0, *call.args]

    def load(self) -> None:
        """Find and compile the module of -m; has no effect on other programs and when called again."""
        if self.code is None:
            spec, self.code = self._module(self._target)
            self._set_names(spec, None)
            sys.argv[0] = spec.origin or self._target

    def run(self) -> None:
        """Load and run the program in this thread; its exceptions propagate."""
        sys.modules["__main__"] = self.main
        self.load()
        assert self.code is not None
        exec(self.code, self.main.__dict__)

    def _set_names(self, spec: importlib.machinery.ModuleSpec | None, file: str | None) -> None:
        names: dict[str, Any] = self.main.__dict__
        names.update(__package__=None, __spec__=None)
        if spec is not None:
            names.update(__file__=spec.origin, __loader__=spec.loader, __spec__=spec)
            names.update(__package__=spec.parent, __cached__=spec.cached)
        elif file is not None:
            names["__file__"], names["__cached__"] = file, None
            names["__loader__"] = importlib.machinery.SourceFileLoader("__main__", file)
        else:
            names["__loader__"] = importlib.machinery.BuiltinImporter
        names["__annotations__"] = {}

    @staticmethod
    def _first_path(folder: str) -> None:
        # The first entry of sys.path is the program's folder, as in the interpreter; here it was fastprof's.
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
                error.errno, f"cannot run {path}: {reason}. Use the path of a script, or -m MODULE."
            ) from None
        if path.endswith(".pyc"):
            loader = importlib.machinery.SourcelessFileLoader("__main__", path)
            code = loader.get_code("__main__")
            assert code is not None
            return code
        return Program._compile(source, path)

    @staticmethod
    def _compile(source: str | bytes, file: str) -> types.CodeType:
        return compile(source, file, "exec", dont_inherit=True)

    @staticmethod
    def _module(name: str) -> tuple[importlib.machinery.ModuleSpec, types.CodeType]:
        details: Callable[[str], Any] = runpy._get_module_details  # type: ignore[attr-defined]
        try:
            _, spec, code = details(name)
        except ImportError as error:
            raise errors.IoError(
                errno.ENOENT,
                f"cannot run the module {name}: {error}. Use the name of a module that python -m runs.",
            ) from None
        return spec, code


def end_threads() -> None:
    """End the program's threads as the interpreter does at exit, before atexit functions run.

    Calls the functions that threading runs then, the last registered first: they end the workers of thread and
    process pools, which nobody may have shut down. Then joins the non-daemon threads. The interpreter finds nothing
    left to do. Main thread only.
    """
    at_exit: list[Callable[[], object]] = getattr(threading, "_threading_atexits", [])
    while at_exit:
        at_exit.pop()()
    current = threading.current_thread()
    while True:
        left = [t for t in threading.enumerate() if t is not current and not t.daemon]
        if not left:
            return
        for thread in left:
            thread.join()


def leave_as(error: BaseException) -> None:
    """Raise the program's exception, with fastprof's frames removed from the printed traceback.

    The interpreter then ends the process as usual: exit codes, the text of sys.exit("..."), and
    death by SIGINT after Ctrl-C.
    """
    global _left_as
    _left_as = error
    shown = sys.excepthook

    def hook(
        kind: type[BaseException], value: BaseException, trace: types.TracebackType | None
    ) -> None:
        trace = _below_exec(trace)
        shown(kind, value.with_traceback(trace), trace)

    sys.excepthook = hook
    raise error


def ends_program(error: BaseException) -> bool:
    """Return whether leave_as() raised this exception: it is the program's, not the command's."""
    return error is _left_as


def _below_exec(trace: types.TracebackType | None) -> types.TracebackType | None:
    """Return the traceback from the program's first frame on; None if it has no frame of the program."""
    at = trace
    here = Program.run.__code__
    while at is not None:
        if at.tb_frame.f_code is here:
            at = at.tb_next
            while at is not None and at.tb_frame.f_code.co_filename == here.co_filename:
                at = at.tb_next  # load() and what it calls
            return at
        at = at.tb_next
    return None
