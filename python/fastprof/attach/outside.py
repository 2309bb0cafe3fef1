# SPDX-License-Identifier: Apache-2.0
"""Sample a Python process from outside: its memory is read, nothing is put into it, and it is not stopped."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from fastprof import _core
from fastprof.attach.debug_offsets import map_interpreter
from fastprof.attach.permission import refusal
from fastprof.attach.processes import (
    PythonProcess,
    has_ended,
    is_stopped,
    read_process,
    status_of,
)
from fastprof.base import errors
from fastprof.base.formatting import counted
from fastprof.base.sample_rate import MAX_SAMPLE_HZ, is_sample_rate
from fastprof.decode.sample_rows import with_samples
from fastprof.importers import load
from fastprof.model.sampled_stacks import SampledStacks
from fastprof.model.table import EventTable
from fastprof.profiler.stack_sampling import MAX_RUNS, of_program, room_problems, samples_of

__all__ = ["OutsideProfile", "sample_from_outside"]

_POLL_S = 0.02
_LARGEST_TID = 1 << 22
_PY_SPY_S = 60.0  # that py-spy may take to begin and to write


@dataclass(frozen=True)
class OutsideProfile:
    """Samples of another process. table: as rows. stacks: None if py-spy has read them. notes: what is to be said."""

    table: EventTable
    stacks: SampledStacks | None
    notes: list[str]


def sample_from_outside(pid: int, hz: float, seconds: float) -> OutsideProfile:
    """Sample all threads of the process `pid` for some seconds; less long if it ends, or at a KeyboardInterrupt.

    CPython 3.13 to 3.15, and the version that runs this; others by py-spy's command, if it is installed. Linux.
    Raises errors.UnavailableError with the reason and what to do, errors.ValueError if there is no such process.
    """
    if not is_sample_rate(hz):
        raise errors.ValueError(f"cannot sample at {hz:g} Hz. Use 1 to {MAX_SAMPLE_HZ}.")
    if sys.platform != "linux":
        raise errors.UnavailableError(
            "processes are sampled from outside on Linux only: use FASTPROF_FLIGHT_RECORDER=1 here"
        )
    if has_ended(status_of(pid)):
        raise errors.ValueError(f"no process {pid}. `fastprof ps --all` lists Python processes.")
    try:
        # Of this program of this process: it reads nothing if another one takes its place.
        with open(f"/proc/{pid}/mem", "rb", buffering=0) as memory:
            process = read_process(pid)
            if process is None:
                raise errors.ValueError(
                    f"process {pid} does not run CPython. `fastprof ps --all` lists Python processes."
                )
            if process.minor < 13 and process.minor != sys.version_info.minor:
                return _by_py_spy(process, hz, seconds)
            samplers = _Samplers(process, os.dup(memory.fileno()), hz)
    except OSError as error:
        reason = refusal(pid) if isinstance(error, PermissionError) else str(error)
        raise errors.UnavailableError(f"process {pid} cannot be read: {reason}") from error
    if problem := samplers.begin():
        why = refusal(pid) if os.strerror(1) in problem else problem
        raise errors.UnavailableError(f"process {pid} cannot be sampled from outside: {why}")
    begin_ns = time.time_ns()
    with contextlib.suppress(KeyboardInterrupt):
        _wait(samplers.look, seconds)
    found = samplers.end()
    nothing: list[int] = []
    columns = dict.fromkeys(("start_ns", "end_ns", "site", "parent"), nothing)
    table = EventTable(
        columns,
        sites=(),
        metadata={"sampling": {"hz": hz, "from_outside": True, **found.counts}},
        t0_ns=begin_ns,
        t1_ns=time.time_ns(),
        pid=pid,
        process_name=_name(pid),
    )
    notes = [
        *_how_it_ended(pid, samplers.main.is_over),
        *room_problems(found),
        *samplers.problems(),
    ]
    return OutsideProfile(with_samples(table, found), found, notes)


class _Samplers:
    """A sampler for the main interpreter of a process, and for each subinterpreter while it has threads."""

    def __init__(self, process: PythonProcess, memory: int, hz: float) -> None:
        """memory: a descriptor of the process's memory, closed by end(), or if this raises."""
        self._pid, self._memory, self._hz = process.pid, memory, hz
        self._name = status_of(self._pid).get("Name", "")  # the kernel's
        self._ended: list[tuple[int, SampledStacks]] = []  # with the interpreter's id
        # By the interpreter's address and id, which outlives no interpreter while another one may have the address.
        self._running: dict[tuple[int, int], _core.StackSampler] = {}
        self._refused: dict[int, str] = {}  # interpreters that could not be sampled: why, by id
        try:
            version = process.minor, process.free_threaded
            self._where = map_interpreter(self._pid, *version, self._read)
            self.main = self._sampler(self._where.addresses)
        except BaseException:
            os.close(memory)
            raise

    def _read(self, address: int, size: int) -> bytes:
        found = os.pread(self._memory, size, address)
        if len(found) != size:
            raise errors.UnavailableError(
                f"process {self._pid} has executed another program meanwhile, or has ended"
            )
        return found

    def _sampler(self, addresses: dict[str, int]) -> _core.StackSampler:
        copy = os.dup(self._memory)
        offsets = self._where.offsets
        return _core.StackSampler(self._hz, MAX_RUNS, self._pid, copy, addresses, offsets)

    def begin(self) -> str:
        """Begin; return why the main interpreter cannot be sampled, or ""."""
        problem = self.main.begin()
        if problem:
            os.close(self._memory)
        return problem

    def look(self) -> bool:
        """Sample the subinterpreters that there are now; return whether the process is over."""
        if self.main.is_over:
            return True
        now = self._where.subinterpreters(self._read).items()
        for gone in self._running.keys() - now:
            self._end_other(gone)
        for state, number in now - self._running.keys():
            try:
                sampler = self._sampler(self._where.addresses_of(state))
                problem = sampler.begin()
                if not problem:
                    self._running[state, number] = sampler
                elif "could not be started" in problem:  # else it has ended meanwhile
                    self._refused[number] = problem
            except (OSError, MemoryError) as error:
                self._refused[number] = str(error)
        return False

    def _end_other(self, interpreter: tuple[int, int]) -> None:
        sampler = self._running.pop(interpreter)
        sampler.end()
        self._ended.append((interpreter[1], self._samples(sampler)))

    def problems(self) -> list[str]:
        """Return what could not be sampled."""
        if not self._refused:
            return []
        why = next(reversed(self._refused.values()))
        return [f"samples of {counted(len(self._refused), 'subinterpreter')} are missing: {why}"]

    def end(self) -> SampledStacks:
        """End, and return the samples of all interpreters."""
        self.main.end()
        for interpreter in [*self._running]:
            self._end_other(interpreter)
        os.close(self._memory)
        found = self._samples(self.main)
        for number, each in self._ended:
            # Its thread states have no frames while their threads run other interpreters, or wait to run this one.
            framed = each.node >= 0
            columns = ("first_ns", "last_ns", "thread", "node", "count", "state")
            kept: dict[str, Any] = {name: getattr(each, name)[framed] for name in columns}
            # Without the thread's id: its frames in other interpreters are on a track of their own.
            threads = tuple((0, f"{name} (interpreter {number})") for _, name in each.threads)
            counted = ("torn_samples", "samples_without_room")
            counts = {name: each.counts[name] for name in counted}
            each = replace(each, threads=threads, counts=counts, **kept)
            found = found.with_process(each, self._pid, self._pid)
        return _joined(found)

    def _samples(self, sampler: _core.StackSampler) -> SampledStacks:
        found = of_program(samples_of(sampler, self._hz, {self._pid: "MainThread"}))
        # Before 3.14 the kernel's name of a thread is the program's.
        unnamed = {tid: f"thread {tid}" for tid, name in found.threads if name == self._name}
        return found.with_names(unnamed)


def _joined(found: SampledStacks) -> SampledStacks:
    """Return the samples with one thread for those without an id that have the same name: states of one thread.

    They get ids that no thread of the kernel has.
    """
    known: dict[tuple[int, str, int], int] = {}
    keys = [(tid, name, i if tid else -1) for i, (tid, name) in enumerate(found.threads)]
    number = np.array([known.setdefault(key, len(known)) for key in keys], found.thread.dtype)
    order = np.argsort(found.first_ns, kind="stable")
    columns = ("first_ns", "last_ns", "thread", "node", "count", "state")
    moved: dict[str, Any] = {name: getattr(found, name)[order] for name in columns}
    moved["thread"] = number[moved["thread"]]
    threads = tuple((tid or _LARGEST_TID + i, name) for i, (tid, name, _) in enumerate(known, 1))
    return replace(found, threads=threads, pids=(), **moved)


def _wait(is_over: Callable[[], bool], seconds: float) -> None:
    end_s = time.monotonic() + seconds
    while not is_over() and (left_s := end_s - time.monotonic()) > 0:
        time.sleep(min(_POLL_S, left_s))


def _how_it_ended(pid: int, is_over: bool) -> list[str]:
    status = status_of(pid)
    if is_over:
        # One that ends has no memory some time before it is a zombie.
        ended = "VmSize" not in status
        what = "ended" if ended else "executed another program"
        return [f"process {pid} has {what} meanwhile: these are its samples until then"]
    if is_stopped(status):
        return [f"process {pid} is stopped by a signal: kill -CONT {pid} lets it go on"]
    return []


def _name(pid: int) -> str:
    with contextlib.suppress(OSError), open(f"/proc/{pid}/cmdline", "rb") as file:
        return file.read(4096).replace(b"\0", b" ").decode("utf-8", "replace").strip()
    return ""


def _by_py_spy(process: PythonProcess, hz: float, seconds: float) -> OutsideProfile:
    """Let py-spy's command sample the process, and read its file."""
    pid = process.pid
    command = shutil.which("py-spy")
    if command is None:
        raise errors.UnavailableError(
            f"process {pid} runs CPython {process.version}, which does not publish where its frames are, as 3.13 and"
            " later do: use the fastprof of that interpreter, or install py-spy (pip install py-spy), which reads it"
        )
    with tempfile.TemporaryDirectory(prefix="fastprof-") as folder:
        path = os.path.join(folder, "profile.speedscope.json")
        words = [command, "record", "--pid", str(pid), "--format", "speedscope", "--output", path]
        words += ["--rate", f"{max(1, round(hz))}", "--duration", f"{max(1, round(seconds))}"]
        words += ["--idle", "--threads"]
        limit_s = seconds + _PY_SPY_S
        try:
            done = subprocess.run(words, capture_output=True, text=True, timeout=limit_s)
        except subprocess.TimeoutExpired as error:
            raise errors.UnavailableError(
                f"{command} did not end within {limit_s:.0f} s: is process {pid} stopped?"
            ) from error
        if done.returncode or not os.path.exists(path):
            lines = done.stderr.strip().splitlines() or ["it wrote nothing"]
            why = refusal(pid) if "ermission" in done.stderr else lines[-1]
            raise errors.UnavailableError(f"{command} cannot sample process {pid}: {why}")
        table = load(path)
    return OutsideProfile(table, None, [f"sampled by {command}"])
