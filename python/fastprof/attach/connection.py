# SPDX-License-Identifier: Apache-2.0
"""attach: make a running Python process answer requests, as one with a flight recorder does."""

from __future__ import annotations

import contextlib
import os
import sys
import sysconfig
import time

from fastprof import _core
from fastprof._version import __version__
from fastprof.attach import inside
from fastprof.attach.injection import run_script
from fastprof.attach.permission import refusal
from fastprof.attach.processes import (
    PythonProcess,
    has_ended,
    is_stopped,
    read_process,
    status_of,
)
from fastprof.base import errors
from fastprof.record.process_folder import FoundProcess, ProcessFolder

__all__ = ["attach"]

_OLDEST_MINOR = 10
_POLL_S = 0.005


def attach(pid: int, limit_s: float = 30.0) -> FoundProcess:
    """Put fastprof into the process `pid` of this user, and return it once it answers requests.

    It stands still for some tens of milliseconds, and loads fastprof and NumPy on a thread of its own. A request
    "leave", or "leave": true in a request for a profile, ends that. limit_s: time until its Python code must have run.

    Linux. Raises errors.UnavailableError with the reason and what to do, errors.ValueError if there is no such process.
    """
    if sys.platform != "linux":
        raise errors.UnavailableError(
            "fastprof attaches to processes on Linux only: use FASTPROF_FLIGHT_RECORDER=1 here"
        )
    process = _checked(pid)
    folder = ProcessFolder.open()
    start = _core.process_start(pid) or 0
    stem = os.path.join(folder.path, f"{pid}-{start}")
    found = FoundProcess(pid, start, True, socket=f"{stem}.sock")
    script, loading, problem = f"{stem}.attach.py", f"{stem}.loading", f"{stem}.problem"
    waits = False
    try:
        _remove_withdrawn(folder)
        _write_script(script, loading, f"{stem}.sock", problem)
        waits = process.minor >= 14  # before it is asked: the request cannot be taken back
        run_script(process, script)
        _wait(process, found, problem, limit_s)
        waits = False
    finally:
        waits = waits and os.path.exists(script) and _core.process_start(pid) == start
        if waits:
            _write(script, f"import os\ntry: os.unlink({script!a})\nexcept OSError: pass\n")
        for path in (loading, problem) if waits else (script, loading, problem):
            with contextlib.suppress(OSError):
                os.unlink(path)
    return found


def _remove_withdrawn(folder: ProcessFolder) -> None:
    """Remove scripts that processes did not run until their end."""
    for name in os.listdir(folder.path):
        pid, _, start = name.removesuffix(".attach.py").partition("-")
        if not (name.endswith(".attach.py") and pid.isdecimal()):
            continue
        if str(_core.process_start(int(pid))) != start:
            with contextlib.suppress(OSError):
                os.unlink(os.path.join(folder.path, name))


def _checked(pid: int) -> PythonProcess:
    """Return the process; raise an error if it is clear that attaching to it cannot succeed."""
    status = status_of(pid)
    if has_ended(status):
        raise errors.ValueError(f"no process {pid}. `fastprof ps --all` lists Python processes.")
    if status.get("TracerPid", "0") != "0":
        raise errors.UnavailableError(
            f"another debugger or tracer, process {status['TracerPid']}, is attached to process {pid}: end it first"
        )
    if is_stopped(status):
        raise errors.UnavailableError(
            f"process {pid} is stopped: let it go on with kill -CONT {pid}"
        )
    if status.get("Uid", "").split()[1:2] != [str(os.geteuid())]:
        user = "".join(status.get("Uid", "").split()[1:2])
        raise errors.UnavailableError(
            f"process {pid} belongs to the user {user}: run this command as that user"
            f" (sudo -u '#{user}' fastprof attach ...)"
        )
    try:
        process = read_process(pid)
        same_files = os.path.samefile(f"/proc/{pid}/root", "/") and _mounts(pid) == _mounts("self")
    except OSError as error:
        raise errors.UnavailableError(
            f"process {pid} cannot be read: {refusal(pid)} ({error.strerror})"
        ) from error
    if not same_files:
        raise errors.UnavailableError(
            f"process {pid} runs in another container or root folder, and sees other files:"
            " run fastprof in there (docker exec, kubectl exec)"
        )
    if process is None:
        raise errors.ValueError(
            f"process {pid} does not run CPython. `fastprof ps --all` lists Python processes."
        )
    own = f"3.{sys.version_info.minor}{'t' if sysconfig.get_config_var('Py_GIL_DISABLED') else ''}"
    if process.version != own:
        other = _command_of_interpreter(process)
        remedy = (
            f"install it for that interpreter and use its command: {other} -m pip install fastprof;"
            f" {other} -m fastprof attach {pid}"
        )
        if process.minor < _OLDEST_MINOR:
            remedy = f"fastprof supports CPython 3.{_OLDEST_MINOR} and later"
        raise errors.UnavailableError(
            f"process {pid} runs CPython {process.version}, this fastprof belongs to CPython {own}: {remedy}."
            f" `fastprof attach {pid} --outside` samples it without that"
        )
    return process


def _command_of_interpreter(process: PythonProcess) -> str:
    """Return the path by which the interpreter was started: that of a virtual environment has its packages."""
    try:
        with open(f"/proc/{process.pid}/cmdline", "rb") as file:
            word = os.fsdecode(file.read().partition(b"\0")[0])
        if os.path.isabs(word) and os.path.samefile(word, process.executable):
            return word
    except OSError:
        pass
    return process.executable


def _write_script(path: str, loading: str, socket: str, problem: str) -> None:
    import numpy as np

    package = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    given = {
        "package": package,
        "core": os.path.abspath(_core.__file__),
        "numpy": os.path.dirname(os.path.dirname(os.path.abspath(np.__file__))),
        "version": __version__,
        "script": path,
        "loading": loading,
        "socket": socket,
        "problem": problem,
    }
    with open(inside.__file__, encoding="utf-8") as file:
        text = file.read()
    _write(path, f"{text}\n\nbegin({given!a}, globals().get('text_page', 0))\n")


def _write(path: str, text: str) -> None:
    """Write the script, which the process may be about to read, at once."""
    with open(path + ".part", "w", encoding="utf-8") as file:
        file.write(text)
    os.replace(path + ".part", path)


def _wait(process: PythonProcess, found: FoundProcess, problem: str, limit_s: float) -> None:
    end_s, stopped = time.monotonic() + limit_s, 0
    while not os.path.exists(str(found.socket)):
        if os.path.exists(problem):
            with open(problem, encoding="utf-8") as file:
                raise errors.UnavailableError(
                    f"fastprof cannot be loaded in process {process.pid}:\n{file.read().rstrip()}"
                )
        if _core.process_start(process.pid) != found.start:
            raise errors.UnavailableError(f"process {process.pid} has ended meanwhile")
        stopped = stopped + 1 if is_stopped(status_of(process.pid)) else 0
        if time.monotonic() > end_s or stopped * _POLL_S > 1:
            why = (
                f"it is stopped: kill -CONT {process.pid}"
                if stopped
                else "its main thread sleeps, waits, or is in another call of compiled code that does not return."
                f" Try again later, or sample it as it is: fastprof attach {process.pid} --outside"
            )
            raise errors.UnavailableError(
                f"process {process.pid} ran no Python code for {limit_s:g} s: {why}"
            )
        time.sleep(_POLL_S)


def _mounts(pid: int | str) -> str:
    return os.readlink(f"/proc/{pid}/ns/mnt")
