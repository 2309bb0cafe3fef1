# SPDX-License-Identifier: Apache-2.0
"""Run a script in a running CPython process, at a point where that is safe.

CPython >= 3.14 offers sys.remote_exec(). Earlier versions are traced. A main thread that waits in a system call, and
has released the GIL for that, takes the GIL and runs the script, as a callback of a C library would. Otherwise the
script is a pending call (Py_AddPendingCall): the main thread runs it between two instructions of Python code.
PyRun_SimpleString(const char*) serves as the function of the pending call: both take a pointer and return an int.
"""

from __future__ import annotations

import contextlib
import json
import platform
import select
import struct
import subprocess
import sys
import time
from typing import Any

from fastprof.attach import tracer
from fastprof.attach.permission import refusal
from fastprof.attach.processes import PythonProcess
from fastprof.attach.symbols import addresses_of
from fastprof.base import errors

__all__ = ["run_script"]

_FUNCTIONS = (
    "Py_AddPendingCall",
    "PyRun_SimpleString",
    "PyGILState_Check",
    "PyGILState_Ensure",
    "PyGILState_GetThisThreadState",
    "PyGILState_Release",
    "mmap",
)
_CODE = """\
try: exec(open(%s, encoding='utf-8').read(), {'text_page': {page}})
except KeyboardInterrupt: __import__('_thread').interrupt_main()
except BaseException: pass
"""
_ANSWER_S, _LEAVE_S = 20.0, 1.0
# System calls in which a thread waits and holds no lock of the C library: read, poll, select, pause, sleeps, accept,
# receive, wait for a child or a signal, epoll. A futex may be any lock: see _waits_for_a_lock().
_WAITS = {
    "x86_64": {0, 7, 23, 34, 35, 43, 45, 47, 61, 128, 230, 232, 247, 270, 271, 281, 288, 441},
    "aarch64": {22, 63, 72, 73, 95, 101, 115, 137, 202, 207, 212, 242, 260, 441},
}
_FUTEX = {"x86_64": 202, "aarch64": 98}
# Goes on with a poll, sleep, or futex with a time limit that a signal has interrupted, with the arguments of that.
_RESTART = {"x86_64": 219, "aarch64": 128}
_FUTEX_WAIT_BITSET, _FUTEX_CLOCK_REALTIME, _FUTEX_FLAGS = 9, 256, 256 | 128
_MIN_WAIT_S = 1.0
_LOOKS, _LOOK_S = 3, 0.01


def run_script(process: PythonProcess, script: str) -> None:
    """Have a process execute the Python file `script`: now, or when its main thread runs Python code again.

    Raises errors.UnavailableError if that is not possible, with the reason and what to do.
    """
    if process.minor >= 14:
        _run_by_interpreter(process.pid, script)
        return
    try:
        at = addresses_of(process.pid, _FUNCTIONS)
    except OSError as error:
        reason = refusal(process.pid) if isinstance(error, PermissionError) else str(error)
        raise errors.UnavailableError(f"process {process.pid} cannot be read: {reason}") from error
    if missing := [name for name in _FUNCTIONS if name not in at]:
        raise errors.UnavailableError(
            f"process {process.pid} does not export {', '.join(missing)}: its interpreter was linked"
            " without exported symbols"
        )
    job = {
        "pid": process.pid,
        "at": at,
        "wait": _safe_wait(process.pid),
        "code": _CODE % ascii(script),
    }
    # In a session of its own, and without the modules of an environment: whatever ends this command, it does its work.
    program = subprocess.Popen(
        [sys.executable, "-IS", tracer.__file__],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        said = _ask(program, json.dumps(job))
        if said == "stopped":
            if addresses_of(process.pid, _FUNCTIONS) != at:
                raise errors.UnavailableError(
                    f"process {process.pid} has executed another program meanwhile"
                )
            said = _ask(program, "go")
    except OSError as error:
        said = str(error)
    finally:
        _leave(program)
    if said == "refused":
        raise errors.UnavailableError(
            f"the kernel does not permit to trace process {process.pid}: {refusal(process.pid)}"
        )
    if said != "done":
        raise errors.UnavailableError(f"cannot run code in process {process.pid}: {said}")


def _ask(program: subprocess.Popen[bytes], line: str) -> str:
    """Send a line to the tracer; return the one that it answers, or what hinders it."""
    assert program.stdin is not None and program.stdout is not None
    program.stdin.write(line.encode() + b"\n")
    program.stdin.flush()
    if not select.select([program.stdout], [], [], _ANSWER_S)[0]:
        return f"another thread has held the GIL for {_ANSWER_S:g} s; nothing will be recorded"
    return program.stdout.readline().decode().strip() or "the tracer has ended unexpectedly"


def _leave(program: subprocess.Popen[bytes]) -> None:
    """Close the pipes: the tracer lets the process go on, at once or when the function that it waits for returns."""
    for pipe in (program.stdin, program.stdout):
        assert pipe is not None
        with contextlib.suppress(OSError):
            pipe.close()
    with contextlib.suppress(subprocess.TimeoutExpired):
        program.wait(_LEAVE_S)


def _run_by_interpreter(pid: int, script: str) -> None:
    remote_exec: Any = getattr(sys, "remote_exec", None)
    if remote_exec is None:
        raise errors.UnavailableError(
            "attaching to CPython 3.14 or later needs the same version here: use the fastprof of that interpreter"
        )
    try:
        remote_exec(pid, script)
    except PermissionError as error:
        raise errors.UnavailableError(
            f"the interpreter cannot attach to process {pid}: {refusal(pid)}"
        ) from error
    except (OSError, RuntimeError) as error:
        raise errors.UnavailableError(
            f"sys.remote_exec failed for process {pid}: {error}. It may have been started with"
            " PYTHON_DISABLE_REMOTE_DEBUG or -X disable-remote-debug."
        ) from error


def _safe_wait(pid: int) -> str | None:
    """Return the system call in which the main thread waits, if it can run code meanwhile; else None."""
    first = tracer.system_call(pid)
    fields = first.split()
    machine = platform.machine()
    if len(fields) != 9 or machine not in _WAITS:  # "running", or "-1 ..." outside of a call
        return None
    number, arguments = int(fields[0]), [int(field, 16) for field in fields[1:7]]
    is_futex = number == _FUTEX[machine]
    if number == _RESTART[machine]:
        is_futex = arguments[1] & ~_FUTEX_FLAGS == _FUTEX_WAIT_BITSET
    elif number not in _WAITS[machine] and not is_futex:
        return None
    if is_futex and not _waits_for_a_lock(pid, arguments):
        return None
    for _ in range(_LOOKS):
        time.sleep(_LOOK_S)
        if tracer.system_call(pid) != first:
            return None
    return first


def _waits_for_a_lock(pid: int, arguments: list[int]) -> bool:
    """Whether a futex is a lock or condition, without a time limit or with one that is far away.

    Not a lock of malloc, which is another operation, nor the GIL, whose waits last 5 ms by default.
    """
    operation, limit_at = arguments[1], arguments[3]
    if operation & ~_FUTEX_FLAGS != _FUTEX_WAIT_BITSET:
        return False
    if limit_at == 0:
        return True
    try:
        with open(f"/proc/{pid}/mem", "rb", buffering=0) as file:
            file.seek(limit_at)
            seconds, nanoseconds = struct.unpack("<qq", file.read(16))
    except (OSError, struct.error):
        return False
    clock = time.CLOCK_REALTIME if operation & _FUTEX_CLOCK_REALTIME else time.CLOCK_MONOTONIC
    end_s: float = seconds + nanoseconds / 1e9
    return end_s - time.clock_gettime(clock) > _MIN_WAIT_S
