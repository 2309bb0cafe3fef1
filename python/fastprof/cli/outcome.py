# SPDX-License-Identifier: Apache-2.0
"""Write the recording of `fastprof run` so that a failure does not lose it: elsewhere, or in another format."""

from __future__ import annotations

import os
import signal
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any

from fastprof.base import errors
from fastprof.base.atomic_file import is_special
from fastprof.cli.formats import FORMATS, write_table

__all__ = ["keep", "patient_with_ctrl_c", "print_message"]

# Of a longer name, another place's has the first characters only: with a mark and another suffix, it would exceed the
# 255 bytes that file systems allow. A character has up to four.
_LONG_NAME_BYTES, _KEPT_CHARACTERS = 200, 48


def print_message(text: str) -> None:
    """Print to stderr; ignore a closed or missing stderr."""
    if sys.stderr is None:  # print() would take that for stdout
        return
    with suppress(OSError, ValueError, AttributeError):
        print(text, file=sys.stderr, flush=True)


def keep(
    profiler: Any, path: str, kind: str, start_folder: str, page: Mapping[str, Any] | None = None
) -> tuple[str, str, int]:
    """Write the recording to `path`, or after a failure to another place. Never raises an Exception.

    kind: one of FORMATS. start_folder: the folder in which the program started. page: options of export_html.
    Returns (path, format, 0); after a failure, which is printed, (other path, its format, 1), with path "" if
    no place was writable. The other places are, in this order, the folder of `path`, start_folder, the folder
    for temporary files and the home folder; in each, the requested format is tried, then fastprof's own, which
    is the smallest and can represent every recording.
    """
    try:
        _write(profiler, path, kind, page or {})
        return path, kind, 0
    except Exception as error:
        print_message(f"fastprof: error: {_reason(error)}")
    for folder in _places(path, start_folder):
        for other in dict.fromkeys((kind, "native")):
            target = _free_name(folder, path, kind, other)
            if target is None:
                continue
            with suppress(Exception):  # try the next place
                _write(profiler, target, other, page or {})
                return target, other, 1
    print_message("fastprof: error: the trace is lost: no other folder could be written to either")
    return "", kind, 1


def _write(profiler: Any, path: str, kind: str, page: Mapping[str, Any]) -> None:
    if kind == "html":
        profiler.export_html(path, **page)
    elif kind == "native":
        write_table(profiler.event_table, path, kind)
    else:
        profiler.export(path, kind)


def _reason(error: Exception) -> str:
    text = getattr(error, "strerror", None) or str(error)
    return text if isinstance(error, errors.Error) else f"{type(error).__name__}: {text}"


def _places(path: str, start_folder: str) -> Iterator[str]:
    if not is_special(path):  # the folder of a device or pipe is no place for files
        yield os.path.dirname(path)
    yield start_folder
    # A private folder, because other users could create the name in a shared one.
    with suppress(OSError):
        yield tempfile.mkdtemp(prefix="fastprof-")
    yield os.path.expanduser("~")


def _free_name(folder: str, path: str, kind: str, other: str) -> str | None:
    """Return an unused path in a folder; None if the folder does not exist."""
    if not os.path.isdir(folder):
        return None
    name = os.path.basename(path)
    packed = ".gz" if name.endswith(".gz") else ""
    stem = name.removesuffix(".gz")
    suffix = next((s for s in FORMATS[kind][0] if stem.endswith(s)), "")
    stem = stem.removesuffix(suffix) or "trace"
    suffix = suffix if kind == other and suffix else FORMATS[other][0][0]
    if len(os.fsencode(name)) > _LONG_NAME_BYTES:
        stem = stem[:_KEPT_CHARACTERS]
    for number in range(100):
        mark = "" if number == 0 and folder != os.path.dirname(path) else f".kept{number or ''}"
        target = os.path.join(folder, f"{stem}{mark}{suffix}{packed}")
        if not os.path.lexists(target):
            return target
    return None


@contextmanager
def patient_with_ctrl_c(what: str, then: Callable[[], None] = lambda: None) -> Iterator[None]:
    """Let the first Ctrl-C during the block only print what is in progress; the second one interrupts.

    what: such as "writing the trace". then: called after that. No effect on other threads than the main one.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    interrupted = False

    def on_signal(number: int, frame: Any) -> None:
        nonlocal interrupted
        if interrupted:
            raise KeyboardInterrupt
        interrupted = True
        print_message(f"fastprof: {what}; press Ctrl-C again to cancel")
        then()

    before: Callable[..., Any] | int | None = signal.getsignal(signal.SIGINT)
    if before is None or before == signal.SIG_IGN:  # SIGINT is ignored or handled outside Python
        yield
        return
    signal.signal(signal.SIGINT, on_signal)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
