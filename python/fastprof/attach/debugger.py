# SPDX-License-Identifier: Apache-2.0
"""Debugger: gdb or lldb, attached to a process for some tens of milliseconds, driven through pipes."""

from __future__ import annotations

import contextlib
import os
import re
import select
import shutil
import signal
import subprocess
import time
from dataclasses import dataclass

from fastprof.attach.processes import is_stopped, status_of
from fastprof.base import errors

__all__ = ["Debugger", "find_debugger"]

_ANSWER_S = 20.0
_INTERRUPT_S = 5.0
_WORD_BYTES = 8


@dataclass(frozen=True)
class _Dialect:
    """The commands of a debugger. value: evaluates an expression and prints "$N = DECIMAL"."""

    arguments: tuple[str, ...]
    settings: tuple[str, ...]
    program: str
    attach: str
    value: str


_GDB = _Dialect(
    ("-nx", "-q", "-iex", "set auto-load no", "-iex", "set debuginfod enabled off"),
    (
        "set confirm off",
        "set pagination off",
        "set width 0",
        "set language c",
        # Symbols of the libraries of a big program take seconds, and addresses are known without them.
        "set auto-solib-add off",
        "set print thread-events off",
        "set unwindonsignal on",
        "handle all nostop noprint pass",
    ),
    "file {program}",
    "attach {pid}",
    "print/d {expression}",
)
_LLDB = _Dialect(
    ("--no-lldbinit", "--no-use-colors"),
    (
        "settings set auto-confirm true",
        "settings set target.preload-symbols false",
        "settings set target.process.stop-on-exec false",
    ),
    "target create {program}",
    "process attach --pid {pid}",
    "expression --format d -- {expression}",
)


def find_debugger() -> str | None:
    """Return the path of gdb or, without one, of lldb; None if neither is on PATH."""
    return shutil.which("gdb") or shutil.which("lldb")


class Debugger:
    """A context: the debugger runs, and is attached after attach(); at the end the process goes on, whatever happened.

    path: of gdb or lldb. Use from one thread. Methods raise errors.UnavailableError if the debugger does not answer.
    """

    def __init__(self, path: str, pid: int) -> None:
        self._pid = pid
        self._dialect = _LLDB if "lldb" in os.path.basename(path) else _GDB
        self._marks = 7_000_000
        self._said = b""
        # In a session of its own: Ctrl-C at a terminal must not end it while the process is stopped.
        self._program = subprocess.Popen(
            [path, *self._dialect.arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            env={**os.environ, "LC_ALL": "C"},
        )

    def __enter__(self) -> Debugger:
        return self

    def __exit__(self, *_: object) -> None:
        with contextlib.suppress(OSError, errors.Error):
            self._do("detach")
        with contextlib.suppress(errors.Error):
            self._write("quit")
        try:
            self._program.wait(_INTERRUPT_S)
        except subprocess.TimeoutExpired:
            self._program.kill()  # the kernel lets the process go
            self._program.wait()
        for pipe in (self._program.stdin, self._program.stdout):
            if pipe is not None:
                with contextlib.suppress(OSError):
                    pipe.close()
        if is_stopped(status_of(self._pid)):
            with contextlib.suppress(OSError):
                os.kill(self._pid, signal.SIGCONT)  # it was not stopped before

    def attach(self) -> str:
        """Stop the process; return "" or, if that failed, the debugger's own words."""
        for line in self._dialect.settings:
            self._write(line)
        self._do(self._dialect.program.format(program=f"/proc/{self._pid}/exe"))
        said = self._do(self._dialect.attach.format(pid=self._pid))
        return "" if self._is_attached() else " ".join(said.split())[-300:]

    def call(
        self, address: int, *arguments: int, result: str = "int", limit_s: float = _ANSWER_S
    ) -> int:
        """Call a function with integers or addresses, while all threads run; return its result.

        result: the C type. Raises errors.UnavailableError if the process ended, or if the function takes longer than
        `limit_s`; the thread then goes on where it was.
        """
        kinds = ",".join(["unsigned long"] * len(arguments)) or "void"
        given = ",".join(f"{number}UL" for number in arguments)
        said = self._do(
            self._dialect.value.format(expression=f"(({result}(*)({kinds})){address:#x})({given})"),
            limit_s,
        )
        values = re.findall(r"\$\d+ = (-?\d+)", said)
        if not values:
            ended = "it has ended" if not self._is_attached() else " ".join(said.split())[-300:]
            raise errors.UnavailableError(f"cannot call a function of the process: {ended}")
        return int(values[-1])

    def write(self, address: int, data: bytes) -> None:
        """Write bytes to the process's memory; up to 7 zero bytes follow them."""
        data += b"\0" * (-len(data) % _WORD_BYTES)
        for at in range(0, len(data), _WORD_BYTES):
            word = int.from_bytes(data[at : at + _WORD_BYTES], "little")
            expression = f"*(unsigned long*){address + at:#x} = {word:#x}UL"
            self._write(self._dialect.value.format(expression=expression))
        self._do("")

    def _is_attached(self) -> bool:
        tracer = status_of(self._pid).get("TracerPid", "0")
        if tracer == str(self._program.pid):
            return True
        # lldb traces by a server that it starts.
        return tracer != "0" and status_of(tracer).get("PPid") == str(self._program.pid)

    def _write(self, line: str) -> None:
        assert self._program.stdin is not None
        try:
            self._program.stdin.write(line.encode(errors="surrogateescape") + b"\n")
            self._program.stdin.flush()
        except OSError as error:
            raise errors.UnavailableError(f"the debugger has ended unexpectedly: {error}") from None

    def _do(self, line: str, limit_s: float = _ANSWER_S) -> str:
        """Send a command; return all that was printed until it had ended."""
        self._marks += 1
        try:
            if line:
                self._write(line)
            self._write(self._dialect.value.format(expression=self._marks))
            mark = rb"\$\d+ = %d\b" % self._marks
            said = self._read_until(mark, limit_s)
            if said is None:
                self._program.send_signal(signal.SIGINT)  # ends a call; its frame is unwound
                self._read_until(mark, _INTERRUPT_S)
        except OSError as error:
            raise errors.UnavailableError(f"the debugger has ended unexpectedly: {error}") from None
        if said is None:
            raise errors.UnavailableError(
                f"the debugger does not answer within {limit_s:g} s: {line}"
            )
        return said

    def _read_until(self, mark: bytes, limit_s: float) -> str | None:
        assert self._program.stdout is not None
        descriptor, end_s = self._program.stdout.fileno(), time.monotonic() + limit_s
        while (found := re.search(mark, self._said)) is None:
            ready, _, _ = select.select([descriptor], [], [], max(0.0, end_s - time.monotonic()))
            if not ready:
                return None
            part = os.read(descriptor, 65536)
            if not part:
                raise BrokenPipeError(self._said[-300:].decode(errors="replace").strip())
            self._said += part
        said, self._said = self._said[: found.start()], self._said[found.end() :]
        return said.decode(errors="replace")
