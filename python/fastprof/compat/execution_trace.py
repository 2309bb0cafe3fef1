# SPDX-License-Identifier: Apache-2.0
"""ExecutionTraceObserver: writes the ops of a program as an execution trace (Chakra's schema), as PyTorch's does.

Only libtorch knows the contents of the nodes (tensors, storages, op schemas), so libtorch's own observer writes them;
it is controlled through torch.profiler.ExecutionTraceObserver. torch is never imported here.
"""

from __future__ import annotations

import os
import warnings
from typing import Any

from fastprof.base import errors
from fastprof.compat.sole_observer import check_sole_observer, is_registered, torchs_observer_class

__all__ = ["ExecutionTraceObserver", "check_observer_may_start", "observer_of_environment"]


class ExecutionTraceObserver:
    """PyTorch's writer of execution traces, under fastprof's name, with the same methods and file.

    Give it to profile(execution_trace_observer=...): it is started and stopped with each recording, and its file,
    which contains the ranges of record_function, is completed at the end of the with block. Or call start() and stop()
    by hand. torch must be imported before register_callback(). A process has one observer at a time, a rule of
    libtorch. One thread at a time.

        observer = fastprof.ExecutionTraceObserver().register_callback("trace.et.json")
        with fastprof.profile(execution_trace_observer=observer):
            train()
    """

    def __init__(self) -> None:
        self._theirs: Any = None
        self._collects_extras = False

    def register_callback(self, output_file_path: str | os.PathLike[str]) -> ExecutionTraceObserver:
        """Begin observing into a file (compressed with gzip for .gz); no effect if already registered.

        Nothing is recorded before start(). Raises errors.UnavailableError if torch is not imported, errors.StateError
        if another of these observers is registered, errors.IoError if the folder cannot be written.
        """
        if self.is_registered:
            return self
        theirs = torchs_observer_class()
        if theirs is None:
            raise errors.UnavailableError(
                "execution traces are written by libtorch, which is not loaded. Import torch before "
                "register_callback(); without torch, use export_chrome_trace()."
            )
        path = os.fspath(output_file_path)
        folder = os.path.dirname(path) or "."
        if not os.path.isdir(folder) or not os.access(folder, os.W_OK):
            raise errors.IoError(
                f"cannot write {path!r}: the folder {folder!r} is missing or read-only. Choose another."
            )
        check_sole_observer()
        self._theirs = observer = theirs()
        observer.register_callback(path)
        if self._collects_extras:
            observer.set_extra_resource_collection(True)
        return self

    def unregister_callback(self) -> None:
        """Stop, and complete the file. No effect if not registered."""
        if self._theirs is not None:
            self._theirs.unregister_callback()

    def cleanup(self) -> None:
        """Do what unregister_callback() does."""
        self.unregister_callback()

    def start(self) -> None:
        """Begin to record, if registered."""
        if self._theirs is not None:
            self._theirs.start()

    def stop(self) -> None:
        """End recording; start() may be called again."""
        if self._theirs is not None:
            self._theirs.stop()

    @property
    def is_registered(self) -> bool:
        """Whether register_callback() was called, without unregister_callback() after it."""
        return is_registered(self._theirs)

    def is_running(self) -> bool:
        """Return whether it records."""
        return bool(getattr(self._theirs, "_execution_trace_running", False))

    def get_output_file_path(self) -> str | None:
        """Return the path given to register_callback(), None before it."""
        path: str | None = None if self._theirs is None else self._theirs.get_output_file_path()
        return path

    def set_extra_resource_collection(self, val: bool) -> None:
        """Set whether what a replay also needs (generated kernels) is collected, in a folder next to the file."""
        self._collects_extras = bool(val)
        if self._theirs is not None:
            self._theirs.set_extra_resource_collection(val)

    def get_resources_dir(self, can_create: bool = False) -> str | None:
        """Return the folder of the extra resources; None unless they are collected."""
        if self._theirs is None:
            return None
        found: str | None = self._theirs.get_resources_dir(can_create)
        return found

    @staticmethod
    def get_resources_dir_for_et_path(trace_path: str, create_dir: bool = False) -> str | None:
        """Return the folder of the extra resources of a trace; None if it does not exist.

        create_dir: create it if it is missing. Raises errors.IoError if it cannot be created.
        """
        work, name = os.path.split(trace_path)
        folder = os.path.join(work, os.path.splitext(name)[0] + "_resources")
        if create_dir:
            try:
                os.makedirs(folder, exist_ok=True)
            except OSError as error:
                message = f"cannot create {folder!r}: {error.strerror}. Choose another path."
                raise errors.IoError(error.errno, message) from None
        return folder if os.path.isdir(folder) else None

    @staticmethod
    def build_execution_trace_obs_from_env() -> ExecutionTraceObserver | None:
        """Return a registered observer if ENABLE_PYTORCH_EXECUTION_TRACE is "1", else None.

        It writes a file *.et.json in the folder for temporary files. Raises errors.UnavailableError if torch is not
        imported, errors.StateError if another of these observers is registered.
        """
        if os.environ.get("ENABLE_PYTORCH_EXECUTION_TRACE", "0") != "1":
            return None
        theirs = observer_of_environment()
        if theirs is None:
            return ExecutionTraceObserver().register_callback("")
        observer = ExecutionTraceObserver()
        observer._theirs = theirs
        return observer


def observer_of_environment() -> Any:
    """Return the observer that torch's ExecutionTraceObserver builds from the environment, or None.

    Reads ENABLE_PYTORCH_EXECUTION_TRACE and ENABLE_PYTORCH_EXECUTION_TRACE_EXTRAS. Returns None if torch is not
    imported (this function does not import it), and with a warning while another observer is registered. Any thread.
    """
    if os.environ.get("ENABLE_PYTORCH_EXECUTION_TRACE", "0") != "1":
        return None
    build = getattr(torchs_observer_class(), "build_execution_trace_obs_from_env", None)
    if build is None:
        return None
    try:
        check_sole_observer()
    except errors.StateError as error:
        warnings.warn(f"ENABLE_PYTORCH_EXECUTION_TRACE=1 has no effect here: {error}", stacklevel=4)
        return None
    return build()


def check_observer_may_start(observer: Any) -> None:
    """Raise errors.StateError if another observer than the given one (ours or torch's) is registered.

    Observers of other classes do not use libtorch's: they may start.
    """
    mine = getattr(observer, "_theirs", observer)
    if is_registered(mine) and isinstance(mine, torchs_observer_class() or ()):
        check_sole_observer(mine)
