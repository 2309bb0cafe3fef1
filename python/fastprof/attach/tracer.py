# SPDX-License-Identifier: Apache-2.0
"""A program that stops the main thread of a process for some milliseconds, and has it run a text of Python.

By ptrace(2), so that no debugger is needed; the other threads run on. `injection` starts it, in a process of its own:
whatever happens to the command, a call ends and the thread gets its registers back. It imports nothing of fastprof.
Layout of the registers: struct user_regs_struct of <sys/user.h>, struct user_pt_regs of <asm/ptrace.h>. Calling
conventions: System V ABI for x86-64, AAPCS64.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import json
import os
import platform
import signal
import struct
import sys
import time
from collections.abc import Iterator
from typing import NamedTuple

__all__ = ["TraceError", "Tracer", "system_call", "tracing"]

_CONTINUE, _DETACH, _GET_SET, _SET_SET, _SEIZE, _INTERRUPT = 7, 17, 0x4204, 0x4205, 0x4206, 0x4207
_ALL_KINDS = 0x40000000  # __WALL of waitpid(2)
_EVENT_STOP = 128  # PTRACE_EVENT_STOP: no signal is about to be delivered
_STOPPING = {signal.SIGSTOP, signal.SIGTSTP, signal.SIGTTIN, signal.SIGTTOU}
_FAULTS = {signal.SIGSEGV, signal.SIGBUS, signal.SIGILL, signal.SIGFPE, signal.SIGTRAP}
_GENERAL = 1  # NT_PRSTATUS
_MOST_BYTES = 65536  # of one set of registers
_BELOW_STACK_BYTES = 256  # 128 of the red zone, and more
_STOP_S = 5.0
_FIRST_POLL_S, _LAST_POLL_S = 0.0001, 0.005
_PAGE_BYTES, _READ_AND_WRITE, _PRIVATE_ANONYMOUS = 4096, 3, 0x22


class TraceError(Exception):
    """The process ended, or is in a state in which it cannot be traced: what and why."""


class _Machine(NamedTuple):
    """A processor: places of registers in its general set, and the other sets that a call changes, the best first.

    changed: what functions expect, and what keeps the kernel from restarting the interrupted system call within one.
    """

    arguments: tuple[int, ...]
    result: int
    stack: int
    program_counter: int
    link: int | None
    changed: dict[int, int]
    others: tuple[int, ...]


_MACHINES = {
    # rdi rsi rdx rcx r8 r9; rax: no vector arguments; orig_rax: no system call; eflags: direction upwards.
    # NT_X86_XSTATE, NT_PRFPREG
    "x86_64": _Machine(
        (14, 13, 12, 11, 9, 8), 10, 19, 16, None, {10: 0, 15: -1, 18: 0x202}, (0x202, 2)
    ),
    # x0 to x7, sp, pc, lr. NT_ARM_SVE, NT_PRFPREG
    "aarch64": _Machine(tuple(range(8)), 0, 31, 32, 30, {}, (0x405, 2)),
}


@contextlib.contextmanager
def tracing(pid: int) -> Iterator[Tracer]:
    """A context: the main thread of a process stands still; at the end it goes on where it was.

    Raises PermissionError if the kernel does not permit it, TraceError if the thread does not stop. Use the tracer on
    the same thread. If this process is killed during a call, the other one crashes.
    """
    tracer = Tracer(pid)
    tracer._request(_SEIZE)
    try:
        tracer._stop()
        yield tracer
    finally:
        tracer._let_go()


class Tracer:
    """The stopped main thread of a process. Methods raise TraceError when it has ended."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        if platform.machine() not in _MACHINES:
            raise TraceError(f"no process can be traced on {platform.machine()} here")
        self._machine = _MACHINES[platform.machine()]
        self._ptrace = ctypes.CDLL(None, use_errno=True).ptrace
        self._ptrace.restype = ctypes.c_long
        self._ptrace.argtypes = [ctypes.c_long, ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p]

    def call(self, address: int, *arguments: int, result_bytes: int = 4) -> int:
        """Call a function with integers or addresses; return its result, signed, of 4 or 8 bytes.

        Signals of the thread take effect meanwhile. It takes as long as the function: one left in the middle could hold
        a lock for ever.
        """
        machine = self._machine
        saved = {_GENERAL: self._registers(_GENERAL)}
        for kind in machine.others:
            with contextlib.suppress(OSError):  # a processor or kernel without it
                saved[kind] = self._registers(kind)
                break
        words = _words_of(saved[_GENERAL])
        changed = {**machine.changed, **dict(zip(machine.arguments, arguments, strict=False))}
        stack = (words[machine.stack] - _BELOW_STACK_BYTES) & ~15
        # The function returns to address 0, where nothing is: a fault that only this tracer sees.
        if machine.link is None:
            stack -= 8
            self.write(stack, bytes(8))
        else:
            changed[machine.link] = 0
        changed.update({machine.stack: stack, machine.program_counter: address})
        for place, value in changed.items():
            words[place] = value % 2**64
        self._set(_GENERAL, struct.pack(f"<{len(words)}Q", *words))
        try:
            result = self._returned().to_bytes(8, "little")
        finally:
            with contextlib.suppress(TraceError):  # it has ended
                for kind, registers in saved.items():
                    self._set(kind, registers)
        return int.from_bytes(result[:result_bytes], "little", signed=True)

    def write(self, address: int, data: bytes) -> None:
        """Write bytes to the process's memory. Raises OSError."""
        with open(f"/proc/{self._pid}/mem", "r+b", buffering=0) as file:
            file.seek(address)
            file.write(data)

    def _stop(self) -> None:
        """Interrupt the thread; signals that come first take effect."""
        self._request(_INTERRUPT)
        end_s = time.monotonic() + _STOP_S
        while (stopped := self._wait(end_s)) is not None:
            number, event = stopped
            if event != _EVENT_STOP:
                self._request(_CONTINUE, number)
            elif number in _STOPPING:
                raise TraceError(
                    f"process {self._pid} is stopped: let it go on with kill -CONT {self._pid}"
                )
            else:
                return
        raise TraceError(f"process {self._pid} does not stop: its main thread is in the kernel")

    def _let_go(self) -> None:
        with contextlib.suppress(TraceError):
            try:
                self._request(_DETACH)
            except TraceError:
                # It has ended, of which its parent is told after its tracer; or it did not stop, and may do so now.
                if self._wait(time.monotonic() + _STOP_S):
                    self._request(_DETACH)

    def _returned(self) -> int:
        """Let the thread run until the function has returned; return its result."""
        number = 0
        while True:
            self._request(_CONTINUE, number)
            number, event = self._wait() or (0, 0)
            if event:  # a stop of the whole process: it takes effect when the thread is let go
                number = 0
            elif number in _FAULTS:
                words = _words_of(self._registers(_GENERAL))
                if words[self._machine.program_counter] == 0:
                    return words[self._machine.result]
                raise TraceError(f"a function failed in it with {signal.Signals(number).name}")

    def _wait(self, end_s: float | None = None) -> tuple[int, int] | None:
        """Wait for a stop; return its signal and event, or None if there is none until `end_s`."""
        poll_s = _FIRST_POLL_S
        while True:
            with contextlib.suppress(ChildProcessError):
                if found := os.waitid(os.P_PID, self._pid, os.WSTOPPED | os.WNOHANG | _ALL_KINDS):
                    return found.si_status & 0xFF, found.si_status >> 8
            try:
                with open(f"/proc/{self._pid}/stat", "rb") as file:
                    state, parent = file.read().rpartition(b")")[2].split()[:2]
            except OSError:
                raise TraceError(f"process {self._pid} has ended meanwhile") from None
            if state in b"ZX":
                if int(parent) != os.getpid():  # its parent is told after its tracer
                    with contextlib.suppress(ChildProcessError):
                        os.waitid(os.P_PID, self._pid, os.WEXITED | os.WNOHANG | _ALL_KINDS)
                raise TraceError(f"process {self._pid} has ended meanwhile")
            if end_s is not None and time.monotonic() >= end_s:
                return None
            time.sleep(poll_s)
            poll_s = min(2 * poll_s, _LAST_POLL_S)

    def _registers(self, kind: int) -> bytes:
        space = ctypes.create_string_buffer(_MOST_BYTES)
        size_bytes = self._transfer(_GET_SET, kind, space)
        return space.raw[:size_bytes]

    def _set(self, kind: int, registers: bytes) -> None:
        self._transfer(_SET_SET, kind, ctypes.create_string_buffer(registers, len(registers)))

    def _transfer(self, request: int, kind: int, space: ctypes.Array[ctypes.c_char]) -> int:
        part = (ctypes.c_size_t * 2)(ctypes.addressof(space), len(space))  # struct iovec
        self._request(request, ctypes.addressof(part), kind)
        return part[1]

    def _request(self, request: int, data: int = 0, address: int = 0) -> None:
        if self._ptrace(request, self._pid, address, data) < 0:
            code = ctypes.get_errno()
            if code == errno.ESRCH:
                raise TraceError(f"process {self._pid} has ended meanwhile")
            raise OSError(code, os.strerror(code))


def _words_of(registers: bytes) -> list[int]:
    return list(struct.unpack(f"<{len(registers) // 8}Q", registers))


def system_call(pid: int) -> str:
    """Return number, arguments, stack pointer and address of the main thread's system call; "" if unknown."""
    try:
        with open(f"/proc/{pid}/task/{pid}/syscall", encoding="ascii") as file:
            return file.read()
    except OSError:
        return ""


def _run(tracer: Tracer, at: dict[str, int], code: str, is_waiting: bool) -> None:
    """Have the main thread run `code`, in which {page} is the address of the page that has it."""
    flags = (_PAGE_BYTES, _READ_AND_WRITE, _PRIVATE_ANONYMOUS, -1, 0)
    page = tracer.call(at["mmap"], 0, *flags, result_bytes=8)
    if page % _PAGE_BYTES or page <= 0:
        raise TraceError("the process has no memory left for another page")
    tracer.write(page, code.replace("{page}", str(page)).encode("ascii") + b"\0")
    if (
        is_waiting
        and tracer.call(at["PyGILState_GetThisThreadState"], result_bytes=8) != 0
        and tracer.call(at["PyGILState_Check"]) == 0
    ):
        state = tracer.call(at["PyGILState_Ensure"])
        try:
            tracer.call(at["PyRun_SimpleString"], page)
        finally:
            tracer.call(at["PyGILState_Release"], state)
    elif tracer.call(at["Py_AddPendingCall"], at["PyRun_SimpleString"], page) != 0:
        raise TraceError("the main thread of the process has too many pending calls: try again")


def _main() -> None:
    """Serve `injection`: a line that the thread stands still, wait for one, run the code, a line how that ended."""
    job = json.loads(sys.stdin.readline())
    try:
        with tracing(job["pid"]) as tracer:
            _say("stopped")
            if sys.stdin.readline():  # else the command has ended
                is_waiting = job["wait"] is not None and system_call(job["pid"]) == job["wait"]
                _run(tracer, job["at"], job["code"], is_waiting)
        said = "done"
    except PermissionError:
        said = "refused"
    except (OSError, TraceError) as error:
        said = str(error)
    _say(said)


def _say(line: str) -> None:
    with contextlib.suppress(OSError):  # the command has ended
        os.write(sys.stdout.fileno(), line.encode() + b"\n")


if __name__ == "__main__":
    _main()
