# SPDX-License-Identifier: Apache-2.0
"""Writing what `fastprof run` recorded, so that no failure loses it."""

from __future__ import annotations

import errno
import os
import signal
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

from fastprof.base import errors
from fastprof.cli.formats import FORMATS, write_table

__all__ = ["check_output", "keep", "patient_with_ctrl_c", "tell"]


def tell(text: str) -> None:
    """Print to stderr, if there still is one."""
    with suppress(OSError, ValueError, AttributeError):
        print(text, file=sys.stderr, flush=True)


def check_output(path: str) -> None:
    """Raise errors.IoError when no file can be made at `path`.

    For use before a long run. Nothing is created: the folder must exist and be writable, and the
    path must not be a folder.
    """
    folder = os.path.dirname(os.path.realpath(path))
    if os.path.isdir(path):
        raise errors.IoError(
            errno.EISDIR, f"cannot write {path}: it is a folder; give the name of a file"
        )
    if not os.path.isdir(folder):
        raise errors.IoError(
            errno.ENOENT, f"cannot write {path}: there is no folder {folder}; make it first"
        )
    special = os.path.exists(path) and not os.path.isfile(path)  # a pipe or device
    if not os.access(path if special else folder, os.W_OK | (0 if special else os.X_OK)):
        raise errors.IoError(
            errno.EACCES,
            f"cannot write {path}: no permission to write in {folder}; choose another place",
        )


def keep(profiler: Any, path: str, kind: str, start_folder: str) -> tuple[str, str, int]:
    """Write the recording to `path`, or else where it can be written.

    Returns (path, format, 0), or (another path, its format, 1) after a failure, which is printed;
    path "" when no place could be written to. The places: the folder of `path`, the one that the
    program started in, the folder for temporary files, the home folder; in each the format asked
    for, then fastprof's own, which is the smallest and can hold every recording.
    """
    try:
        _write(profiler, path, kind)
        return path, kind, 0
    except Exception as error:
        tell(f"fastprof: error: {_reason(error)}")
    for folder in _places(path, start_folder):
        for other in dict.fromkeys((kind, "native")):
            target = _free_name(folder, path, kind, other)
            if target is None:
                continue
            with suppress(Exception):  # the next place may work
                _write(profiler, target, other)
                return target, other, 1
    tell("fastprof: error: no other place could be written to either: the trace is lost")
    return "", kind, 1


def _write(profiler: Any, path: str, kind: str) -> None:
    if kind == "chrome":
        profiler.export_chrome_trace(path)
    elif kind == "perfetto":
        profiler.export_perfetto_trace(path)
    else:
        write_table(profiler.event_table, path, kind)


def _reason(error: Exception) -> str:
    text = getattr(error, "strerror", None) or str(error)
    return text if isinstance(error, errors.Error) else f"{type(error).__name__}: {text}"


def _places(path: str, start_folder: str) -> Iterator[str]:
    yield os.path.dirname(path)
    yield start_folder
    with suppress(OSError):  # a private folder: names in /tmp could be taken by others
        yield tempfile.mkdtemp(prefix="fastprof-")
    yield os.path.expanduser("~")


def _free_name(folder: str, path: str, kind: str, other: str) -> str | None:
    """A name in a folder that nothing has, None when the folder is not there."""
    if not os.path.isdir(folder):
        return None
    name = os.path.basename(path)
    packed = ".gz" if name.endswith(".gz") else ""
    stem = name.removesuffix(".gz")
    suffix = next((s for s in FORMATS[kind][0] if stem.endswith(s)), "")
    stem = stem.removesuffix(suffix) or "trace"
    suffix = suffix if kind == other and suffix else FORMATS[other][0][0]
    for number in range(100):
        mark = "" if number == 0 and folder != os.path.dirname(path) else f".kept{number or ''}"
        target = os.path.join(folder, f"{stem}{mark}{suffix}{packed}")
        if not os.path.lexists(target):
            return target
    return None


@contextmanager
def patient_with_ctrl_c(what: str) -> Iterator[None]:
    """The first Ctrl-C in the block only says what is going on; the second one interrupts."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    interrupted = False

    def on_signal(number: int, frame: Any) -> None:
        nonlocal interrupted
        if interrupted:
            raise KeyboardInterrupt
        interrupted = True
        tell(f"fastprof: {what}; press Ctrl-C again to give it up")

    before: Callable[..., Any] | int | None = signal.getsignal(signal.SIGINT)
    if before is None or before == signal.SIG_IGN:  # not ours to change
        yield
        return
    signal.signal(signal.SIGINT, on_signal)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
