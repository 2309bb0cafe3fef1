# SPDX-License-Identifier: Apache-2.0
"""Run commands with a time limit and leave no process behind: ending a build ends its compilers. Linux only."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from types import FrameType

GRACE_S = 10.0  # from the request to end (ninja removes half-written files) to SIGKILL


class Unavailable(Exception):
    """Raised if this machine lacks something; the message names it."""


class CommandFailed(Unavailable):
    """Raised if a command exits with a status other than 0; the message has the end of both streams."""


class _Signals:
    """Signals that end the program, deferred while run() starts or ends a process."""

    def __init__(self) -> None:
        self._deferring = False
        self._arrived: int | None = None

    def exit(self, number: int, _frame: FrameType | None) -> None:
        """Handle a signal."""
        self._arrived = number
        if not self._deferring:
            sys.exit(128 + number)

    @contextlib.contextmanager
    def deferred(self) -> Iterator[None]:
        """Defer the exit for a signal that arrives in the block to its end."""
        self._deferring, self._arrived = True, None
        try:
            yield
        finally:
            self._deferring = False
        if self._arrived is not None:
            sys.exit(128 + self._arrived)


_signals = _Signals()


def run(
    *command: str | Path,
    cwd: Path | None = None,
    env: dict[str, str] | None = None,
    timeout_s: float = 1800,
) -> str:
    """Run a command in a session of its own and return its standard output.

    Raises CommandFailed when it fails, subprocess.TimeoutExpired after ``timeout_s``.
    Whatever ends the wait (the limit, or a signal after exit_on_signals), all processes of the session are ended first.
    """
    words = [str(part) for part in command]
    process = None
    try:
        with _signals.deferred():
            process = subprocess.Popen(
                words,
                cwd=cwd,
                env=env,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                start_new_session=True,
            )
        out, err = process.communicate(timeout=timeout_s)
    except BaseException:
        if process is not None:
            with _signals.deferred(), process:
                end_session(process.pid)
        raise
    if process.returncode != 0:
        raise CommandFailed(
            f"{' '.join(words)}\nexit status {process.returncode}\n{(out + err)[-3000:]}"
        )
    return out


def session_members(session: int) -> list[int]:
    """Return the processes of a session that have not ended, of any process group.

    A group would not do: ninja gives each compiler a group of its own.
    """
    members = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            text = path.read_text()
        except OSError:
            continue  # ended since
        state, _parent, _group, of = text.rpartition(")")[2].split()[:4]
        if int(of) == session and state not in "ZX":
            members.append(int(path.parent.name))
    return members


def end_session(session: int) -> None:
    """End all processes of a session: SIGTERM, and SIGKILL to those that are there GRACE_S later."""
    limit = time.monotonic() + GRACE_S
    number = signal.SIGTERM
    asked: set[int] = set()
    while members := session_members(session):
        if time.monotonic() > limit:
            number = signal.SIGKILL
        for process in members:
            if number == signal.SIGKILL or process not in asked:
                asked.add(process)
                with contextlib.suppress(ProcessLookupError):
                    os.kill(process, number)
        time.sleep(0.02)


def exit_on_signals() -> None:
    """Turn SIGINT, SIGTERM and SIGHUP into SystemExit, so that run() ends what it started. Main thread only."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _signals.exit)
