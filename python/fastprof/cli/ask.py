# SPDX-License-Identifier: Apache-2.0
"""Find running processes that hold fastprof, and send them requests."""

from __future__ import annotations

import json
import os
import socket
import time
from typing import TYPE_CHECKING, Any

from fastprof.attach.processes import has_ended, is_stopped, status_of
from fastprof.base import errors

if TYPE_CHECKING:
    from fastprof.record.process_folder import FoundProcess

__all__ = ["PROCESSES", "ask", "choose", "command_of", "default_stem", "find_alive"]

_STOPPED_S = 5  # after which a stopped process is no longer waited for
PROCESSES = "a pid, or a part of the command line that one process has"


def command_of(pid: int) -> str:
    """Return the command line of a process; "" if it cannot be read."""
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            return file.read(4096).replace(b"\0", b" ").decode("utf-8", "replace").strip()
    except OSError:
        return ""


def default_stem(pid: int) -> str:
    """Return the stem of the names of files about a process: its script's and its pid."""
    words = [os.path.basename(word) for word in command_of(pid).split()]
    program = next((word for word in words[1:] if word.endswith(".py")), "process")
    return f"{program.removesuffix('.py')}-{pid}"


def choose(wanted: str, *, several: bool = False, dead: bool = False) -> list[FoundProcess]:
    """Return the processes that `wanted` names: by pid, or by a part of the command line.

    dead: also those that have ended and left records. Raises errors.ValueError if there is none, or more than one
    unless `several`.
    """
    from fastprof.record.process_folder import find_processes

    known = [each for each in find_processes() if each.pid != os.getpid()]
    usable = [each for each in known if each.alive or (dead and each.records)]
    if wanted.isdecimal():
        found = [each for each in usable if each.pid == int(wanted)]
        found = [each for each in found if each.alive] or found[-1:]
    else:
        found = [each for each in usable if each.alive and wanted in command_of(each.pid)]
    if not found:
        left = wanted.isdecimal() and [e for e in known if e.pid == int(wanted) and e.records]
        if left and has_ended(status_of(wanted)):
            raise errors.ValueError(
                f"process {wanted} has ended: `fastprof dump {wanted}` reads its records."
            )
        raise errors.ValueError(f"{_why_not(wanted)} `fastprof ps` lists the processes.")
    if len(found) > 1 and not several:
        pids = ", ".join(str(each.pid) for each in found)
        raise errors.ValueError(
            f"{wanted!r} names several processes: {pids}. Give a pid, or --group."
        )
    return found


def find_alive(pid: int) -> FoundProcess | None:
    """Return the running process `pid` if it has fastprof's files, else None."""
    from fastprof.record.process_folder import find_processes

    found = [each for each in find_processes() if each.alive and each.pid == pid]
    return found[0] if found else None


def _why_not(wanted: str) -> str:
    if wanted.isdecimal() and not has_ended(status_of(wanted)):
        return (
            f"process {wanted} holds no flight recorder, or is another user's. `fastprof attach {wanted}` profiles"
            " a Python process without one; to have one, start it with FASTPROF_FLIGHT_RECORDER=1, `fastprof run"
            " --flight-recorder` or flight_recorder.start()."
        )
    return f"no process {wanted!r} with a flight recorder."


def ask(process: FoundProcess, request: dict[str, Any], timeout_s: float = 10.0) -> dict[str, Any]:
    """Send a request; return the answer.

    Raises errors.UnavailableError if the process does not answer or refuses, errors.IoError if it could not write.
    """
    pid = process.pid
    if process.socket is None:
        raise errors.UnavailableError(
            f"process {pid} takes no requests (FASTPROF_CONTROL=0); `fastprof dump {pid}` reads its records"
        )
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
            connection.settimeout(timeout_s)
            connection.connect(process.socket)
            connection.sendall(json.dumps(request).encode() + b"\n")
            text = _answer_of(connection, pid, timeout_s)
    except (ConnectionError, FileNotFoundError) as error:  # nothing takes its requests any more
        raise _lost(process) from error
    except OSError as error:
        reason = "no answer in time" if isinstance(error, TimeoutError) else str(error)
        why = "Its GIL may be held, or it is stopped"
        if is_stopped(status_of(pid)):
            why = f"It is stopped: `kill -CONT {pid}` lets it go on"
        if process.records:
            why += f"; `fastprof dump {pid}` reads its records all the same"
        raise errors.UnavailableError(f"process {pid} does not answer: {reason}. {why}.") from error
    if not text:
        raise _lost(process)
    answer: dict[str, Any] = json.loads(text)
    if answer.get("kept"):  # it did what was asked, and could not write the file
        raise errors.IoError(f"process {pid}: {answer['error']}")
    if not answer.get("ok"):
        raise errors.UnavailableError(
            f"process {pid} refused the request: {answer.get('error', text)!s}"
        )
    return answer


def _lost(process: FoundProcess) -> errors.UnavailableError:
    pid, end = process.pid, "has executed another program, or broke the connection"
    if has_ended(status_of(pid)):
        end = "has ended"
    rest = f"; `fastprof dump {pid}` reads its flight recorder" if process.records else ""
    return errors.UnavailableError(
        f"process {pid} {end} before it answered: anything it had recorded for this request is lost{rest}"
    )


def _answer_of(connection: socket.socket, pid: int, timeout_s: float) -> bytes:
    """Return what the process sends until it closes the connection. Raises TimeoutError, also if it is stopped."""
    end_s, text, stopped = time.monotonic() + timeout_s, b"", 0
    while True:
        connection.settimeout(max(0.001, min(1.0, end_s - time.monotonic())))
        try:
            part = connection.recv(65536)
        except TimeoutError:
            stopped = stopped + 1 if is_stopped(status_of(pid)) else 0
            if stopped >= _STOPPED_S or time.monotonic() >= end_s:
                raise
        else:
            if not part:
                return text
            text += part
