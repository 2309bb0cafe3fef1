# SPDX-License-Identifier: Apache-2.0
"""Commands with a time limit that leave no process behind: a build that is ended takes its compilers with it. Linux."""

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
    """Something this machine lacks; the message says what."""


class CommandFailed(Unavailable):
    """A command that ended with another status than 0; the message has the end of both streams."""


class _Signals:
    """Signals that end the program, but not while run() has a process half started or half ended."""

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
        """Let a signal that arrives meanwhile end the program afterwards."""
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
    """Return the processes of a session that have not ended, in whatever process group they are.

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
