# SPDX-License-Identifier: Apache-2.0
"""Requests to a running process: one JSON line each way through a socket that only this user can reach.

Request: {"do": NAME, ...}; answer: {"ok": true, ...} or {"ok": false, "error": TEXT}. Nothing of a request is
executed: it names one of these actions, and options of profile() with values of JSON. A path is absolute and checked
before anything is recorded; format: one of _outputs.FORMATS, by default that of the path's suffix.

| do | members | answer |
|---|---|---|
| status | | facts of the process and its recorder |
| dump | reason, path | path |
| start | options | |
| stop | path, format | path, rows |
| profile | options, path, format, and seconds or steps; start_unix_s, start_step, step_multiple; leave | path, rows |
| end | | |
| leave | | |

start_unix_s: when the profile begins, at once if it is past. start_step: it begins after this step, after the running
one if it is past; step_multiple: after the next step whose number is a multiple.

end: a profile of seconds that runs ends now; its own request is answered as usual.

stop: also writes the last finished profile whose file could not be written, which "kept": true in an answer says.

leave: an attached process (attached.py) ends to listen.
"""

from __future__ import annotations

import json
import logging
import os
import select
import socket
import struct
import sys
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from fastprof import _outputs
from fastprof._version import __version__
from fastprof.base import errors
from fastprof.base.atomic_file import check_output
from fastprof.profiler import profile
from fastprof.profiler.recovery import program_name

if TYPE_CHECKING:
    from fastprof.flight_recorder.recorder import FlightRecorder

__all__ = ["PROFILE_OPTIONS", "Requests"]

# Options of profile() that a request may set.
PROFILE_OPTIONS = {
    "record_shapes": bool,
    "profile_memory": bool,
    "python_memory": bool,
    "with_stack": bool,
    "with_modules": bool,
    "with_flops": bool,
    "python_calls": bool,
    "native": bool,
    "tasks": bool,
    "max_bytes": int,
    "sample_hz": float,
    "follow_children": bool,
}
# Without any of them, no calls are recorded.
_CALLS_OPTIONS = ("python_calls", "with_stack", "native")
_MAX_REQUEST_BYTES = 65536
_MAX_SECONDS = 3600.0
_log = logging.getLogger("fastprof.control")


class _NotWrittenError(errors.IoError):
    """A profile was recorded and is kept, but its file could not be written."""


class Requests:
    """Answers requests to this process. Called on threads of their own.

    recorder: returns the process's flight recorder, or None. leave: ends to listen; None: requests cannot ask for that.
    """

    def __init__(self, recorder: Any, leave: Callable[[], None] | None = None) -> None:
        self._recorder = recorder
        self._leave = leave
        self._started_s = time.time()
        # One profile on request at a time. The lock is never held while it records.
        self._lock = threading.Lock()
        self._profile: profile | None = None
        self._until_stop = False  # `start` has begun it, and `stop` ends it
        self._kept: profile | None = None  # the last one whose file could not be written
        self._early = threading.Event()  # the profile's: it ends now

    def answer(self, connection: socket.socket) -> None:
        """Read a request, do it, and send the answer."""
        connection.settimeout(5.0)
        if not _same_user(connection):
            return
        leaves = False
        try:
            line = _read_line(connection)
            request = json.loads(line)
            if not isinstance(request, dict) or not isinstance(request.get("do"), str):
                raise errors.ValueError('a request is a JSON object with the member "do"')
            _log.info("request: %s", line[:500].decode("utf-8", "replace"))
            do = getattr(self, f"_do_{request['do']}", None)
            if do is None:
                raise errors.ValueError(f"no such request: {request['do']!r}")
            connection.settimeout(None)
            leaves = request.get("leave") is True
            if _is_gone(connection):  # it gave up while this process was stopped, and said so
                raise errors.StateError("nobody waits for the answer")
            result = {"ok": True, **do(request)}
            # After a stop, too: it writes what is kept of the request that was to leave.
            leaves = leaves or request["do"] in ("leave", "stop")
        except (errors.Error, OSError, ValueError) as error:
            _log.info("request failed: %s", error)
            kept = isinstance(error, _NotWrittenError)
            result = {"ok": False, "error": _text_of(error), **({"kept": True} if kept else {})}
        try:
            connection.settimeout(5.0)
            connection.sendall(json.dumps(result).encode() + b"\n")
        finally:
            if leaves and self._leave is not None and self._profile is self._kept is None:
                self._leave()

    def _do_status(self, request: dict[str, Any]) -> dict[str, Any]:
        recorder: FlightRecorder | None = self._recorder()
        return {
            "pid": os.getpid(),
            "program": program_name(),
            "version": __version__,
            "python": sys.version.split()[0],
            "since_unix_s": self._started_s,
            "profile": self._profile is not None,
            "recorder": None if recorder is None else recorder.status(),
        }

    def _do_dump(self, request: dict[str, Any]) -> dict[str, Any]:
        recorder: FlightRecorder | None = self._recorder()
        if recorder is None:
            raise errors.StateError("this process has no flight recorder: use `fastprof profile`")
        path = request.get("path")
        if path is not None and not isinstance(path, str):
            raise errors.ValueError("the path of a dump is a text")
        return {"path": recorder.dump(path, str(request.get("reason", "request"))[:200])}

    def _do_leave(self, request: dict[str, Any]) -> dict[str, Any]:
        if self._leave is None:
            raise errors.StateError("this process has a flight recorder, which keeps listening")
        if self._profile is not None:
            raise errors.StateError("a profile runs: `fastprof stop` ends it")
        if self._kept is not None:
            raise errors.StateError("a profile is not written yet: `fastprof stop` writes it")
        return {}

    def _do_start(self, request: dict[str, Any]) -> dict[str, Any]:
        return {"missing": dict(self._begin(_profile_options(request), until_stop=True).missing)}

    def _do_stop(self, request: dict[str, Any]) -> dict[str, Any]:
        with self._lock:
            ended = self._profile if self._until_stop else self._kept
            if ended is None:
                raise errors.StateError("no profile was started by request: use `fastprof start`")
            output = _output_of(request)
            ended.stop()  # no effect on one that is kept
            if ended is self._profile:
                self._profile, self._until_stop = None, False
        return self._saved(ended, output)

    def _do_end(self, request: dict[str, Any]) -> dict[str, Any]:
        with self._lock:
            self._early.set()
        return {}

    def _begin(self, options: dict[str, Any], *, until_stop: bool) -> profile:
        with self._lock:
            if self._profile is not None:
                raise errors.StateError("a profile runs already: `fastprof stop` ends it")
            started = profile(**options)
            started.start()
            self._profile, self._until_stop = started, until_stop
            self._early = threading.Event()
        return started

    def _do_profile(self, request: dict[str, Any]) -> dict[str, Any]:
        options = _profile_options(request)
        seconds, steps = request.get("seconds"), request.get("steps")
        if (seconds is None) == (steps is None):
            raise errors.ValueError("a profile lasts seconds or steps: give one of them")
        for number in (seconds, steps):
            if number is not None and (type(number) not in (int, float) or not number > 0):
                raise errors.ValueError(f"invalid length {number!r}: use a number above 0")
        if seconds is not None and seconds > _MAX_SECONDS:
            raise errors.ValueError(
                f"{seconds:g} s are too long: use at most {_MAX_SECONDS:g}, or `fastprof start` and `fastprof stop`"
            )
        limit_s = min(float(request.get("timeout_s", _MAX_SECONDS)), _MAX_SECONDS)
        output = _output_of(request)
        if output[1] == "pstats" and not any(map(options.get, _CALLS_OPTIONS)):
            raise errors.ValueError(
                f"cannot write {output[0]}: this format shows calls of functions. Add --calls."
            )
        first = self._wait_for_start(request, limit_s)
        if steps is not None:
            ended = self._profile_of_steps(options, first, int(steps), limit_s)
            return self._saved(ended, output)
        running = self._begin(options, until_stop=False)
        try:
            self._early.wait(float(seconds or 0))
        finally:
            self._end(running)
        return self._saved(running, output)

    def _saved(self, ended: profile, output: tuple[str, str]) -> dict[str, Any]:
        """Write a profile and return the facts of it. If that fails, it is kept for a later request to stop."""
        path, kind = output
        try:
            ended.export(path, kind)
        except Exception as error:  # of any kind, for example no memory
            self._kept = ended
            reason = (_text_of(error) or type(error).__name__).rstrip(".")
            raise _NotWrittenError(
                f"{reason}. The profile is kept: `fastprof stop {os.getpid()} -o PATH` writes it."
            ) from error
        if self._kept is ended:
            self._kept = None
        return {"path": path, "rows": len(ended.event_table), "missing": dict(ended.missing)}

    def _end(self, running: profile) -> None:
        with self._lock:
            running.stop()
            self._profile = None

    def _wait_for_start(self, request: dict[str, Any], limit_s: float) -> int:
        """Wait until a profile of seconds is to begin; return the number of the step after which one of steps is."""
        start_s = request.get("start_unix_s", 0)
        numbers = [request.get(name, 0) for name in ("start_step", "step_multiple")]
        if type(start_s) not in (int, float) or any(
            type(each) is not int or each < 0 for each in numbers
        ):
            raise errors.ValueError(
                "invalid start: use Unix seconds, or numbers of steps from 0 on"
            )
        if start_s > time.time() + limit_s:
            raise errors.ValueError(f"the start is more than {limit_s:g} s ahead")
        if request.get("steps") is None:
            if any(numbers):
                raise errors.ValueError("a profile that begins at a step lasts steps")
            time.sleep(max(0.0, start_s - time.time()))
            return 0
        recorder: FlightRecorder | None = self._recorder()
        target: int = max(1 + (0 if recorder is None else recorder.steps.count), numbers[0])
        return -(-target // numbers[1]) * numbers[1] if numbers[1] else target

    def _profile_of_steps(
        self, options: dict[str, Any], first: int, count: int, limit_s: float
    ) -> profile:
        """Return a profile of the `count` steps after step `first`, whole: the program's thread starts and stops it."""
        recorder: FlightRecorder | None = self._recorder()
        if recorder is None:
            raise errors.StateError(
                "this process has no flight recorder, so its steps are not known: give --seconds"
            )
        return recorder.step_work.span(
            first, count, lambda: self._begin(options, until_stop=False), self._end, limit_s
        )


def _text_of(error: Exception) -> str:
    """Return an error's text, without the number that OSError puts before it."""
    return str((isinstance(error, errors.IoError) and error.strerror) or error)


def _profile_options(request: dict[str, Any]) -> dict[str, Any]:
    options = request.get("options", {})
    if not isinstance(options, dict):
        raise errors.ValueError("options are a JSON object")
    for name, value in options.items():
        if name not in PROFILE_OPTIONS or type(value) is not PROFILE_OPTIONS[name]:
            known = ", ".join(PROFILE_OPTIONS)
            raise errors.ValueError(f"invalid option {name}={value!r}. Options are {known}.")
    return options


def _output_of(request: dict[str, Any]) -> tuple[str, str]:
    """Return the path and the format of a profile's file. Raises errors.Error if it could not be written."""
    path, kind = request.get("path"), request.get("format")
    if not isinstance(path, str) or not os.path.isabs(path):
        raise errors.ValueError("a request for a profile has the absolute path of its file")
    if kind is not None and not isinstance(kind, str):
        raise errors.ValueError("the format of a file is a text")
    kind = _outputs.format_of(path, kind)
    check_output(path)
    return path, kind


def _read_line(connection: socket.socket) -> bytes:
    line = b""
    while not line.endswith(b"\n"):
        part = connection.recv(4096)
        if not part or len(line) + len(part) > _MAX_REQUEST_BYTES:
            raise errors.ValueError(
                f"a request is one line of at most {_MAX_REQUEST_BYTES} bytes of JSON"
            )
        line += part
    return line


def _is_gone(connection: socket.socket) -> bool:
    """Return whether the other side has closed the connection, in both directions."""
    poll = select.poll()
    poll.register(connection, 0)
    return any(events & select.POLLHUP for _, events in poll.poll(0))


def _same_user(connection: socket.socket) -> bool:
    """Return whether the peer has our user id. Where the system does not say, the folder's mode has to suffice."""
    if not hasattr(socket, "SO_PEERCRED"):
        return True
    size = struct.calcsize("3i")
    _, uid, _ = struct.unpack(
        "3i", connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, size)
    )
    return bool(uid == os.geteuid())
