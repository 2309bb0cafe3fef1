# SPDX-License-Identifier: Apache-2.0
"""Run a script in a running CPython process, at a point where that is safe.

CPython >= 3.14 offers sys.remote_exec(). Earlier versions need a debugger. A thread that waits in a system call, and
has released the GIL for that, takes the GIL and runs the script, as a callback of a C library would. Otherwise the
script is a pending call (Py_AddPendingCall): the main thread runs it between two instructions of Python code.
PyRun_SimpleString(const char*) serves as the function of the pending call: both take a pointer and return an int.
"""

from __future__ import annotations

import platform
import struct
import sys
import time
from typing import Any

from fastprof.attach.debugger import Debugger, find_debugger
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
_PAGE_BYTES = 4096
_READ_AND_WRITE, _PRIVATE_ANONYMOUS = 3, 0x22
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
    path = find_debugger()
    if path is None:
        raise errors.UnavailableError(
            f"attaching to CPython {process.version} needs gdb or lldb, and neither is on PATH: install"
            f" gdb (apt-get install gdb, dnf install gdb). `fastprof attach {process.pid} --outside` samples it without"
        )
    try:
        before = addresses_of(process.pid, _FUNCTIONS)
        wait = _safe_wait(process.pid)
        with Debugger(path, process.pid) as debugger:
            if said := debugger.attach():
                raise errors.UnavailableError(
                    f"the debugger {path} cannot attach to process {process.pid}: {refusal(process.pid)} ({said})"
                )
            now = addresses_of(process.pid, _FUNCTIONS)
            if now != before:
                raise errors.UnavailableError(
                    f"process {process.pid} has executed another program meanwhile"
                )
            if missing := [name for name in _FUNCTIONS if name not in now]:
                raise errors.UnavailableError(
                    f"process {process.pid} does not export {', '.join(missing)}: its interpreter was linked"
                    " without exported symbols"
                )
            is_waiting = wait is not None and _system_call(process.pid) == wait
            _run(debugger, now, script, is_waiting)
    except OSError as error:
        reason = refusal(process.pid) if isinstance(error, PermissionError) else str(error)
        raise errors.UnavailableError(f"process {process.pid} cannot be read: {reason}") from error


def _run(debugger: Debugger, at: dict[str, int], script: str, is_waiting: bool) -> None:
    """Run the script on the main thread, which has just been stopped."""
    page = debugger.call(
        at["mmap"], 0, _PAGE_BYTES, _READ_AND_WRITE, _PRIVATE_ANONYMOUS, 2**32 - 1, 0, result="long"
    )
    if page % _PAGE_BYTES or page <= 0:
        raise errors.UnavailableError("the process has no memory left for another page")
    code = (
        f"try: exec(open({script!a}, encoding='utf-8').read(), {{'text_page': {page}}})\n"
        "except KeyboardInterrupt: __import__('_thread').interrupt_main()\n"
        "except BaseException: pass\n"
    )
    debugger.write(page, code.encode("ascii") + b"\0")
    if (
        is_waiting
        and debugger.call(at["PyGILState_GetThisThreadState"], result="long") != 0
        and debugger.call(at["PyGILState_Check"]) == 0
    ):
        state = debugger.call(at["PyGILState_Ensure"])
        try:
            debugger.call(at["PyRun_SimpleString"], page, limit_s=60.0)
        finally:
            debugger.call(at["PyGILState_Release"], state)
    elif debugger.call(at["Py_AddPendingCall"], at["PyRun_SimpleString"], page) != 0:
        raise errors.UnavailableError(
            "the main thread of the process has too many pending calls: try again"
        )


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


def _system_call(pid: int) -> str:
    """Return number, arguments, stack pointer and address of the main thread's system call; "" if unknown."""
    try:
        with open(f"/proc/{pid}/task/{pid}/syscall", encoding="ascii") as file:
            return file.read()
    except OSError:
        return ""


def _safe_wait(pid: int) -> str | None:
    """Return the system call in which the main thread waits, if it can run code meanwhile; else None."""
    first = _system_call(pid)
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
        if _system_call(pid) != first:
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
