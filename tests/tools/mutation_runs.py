# SPDX-License-Identifier: Apache-2.0
"""Runs of tests and other programs in the copy of the tree, within a limit of CPU time."""

from __future__ import annotations

import contextlib
import importlib
import importlib.metadata
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterable
from pathlib import Path

from mutation_tree import TREE, WORK

__all__ = ["failed_tests", "preload", "run", "run_tests"]

STALLED_S = 60  # wall time without any CPU time, more than a test sleeps
_FAILED = WORK / "failed.json"
_HERE = str(Path(__file__).resolve().parent)


def run(command: list[str], limit_s: float, **environment: str) -> int | None:
    """Return the exit status of a command run in the copy; None if it exceeded limit_s and its group was killed."""
    process = subprocess.Popen(
        command,
        cwd=TREE,
        env={
            **os.environ,
            "PYTHONPATH": f"{TREE}/python:{TREE}/tests/tools",
        }
        | environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        return wait_for(process.pid, limit_s)
    finally:
        # Reaped already: Popen must not wait for the number, which may be another process's by now.
        process.returncode = 0


def wait_for(leader: int, limit_s: float) -> int | None:
    """Wait for a child that leads a session, then end the session. Return its exit code; None if it took too long.

    limit_s: of CPU time, so that a busy machine makes nothing fail. A session that uses none for as long, and
    STALLED_S more, has stalled.
    """
    status = None
    used, used_at = 0.0, time.monotonic()
    looked_at = used_at
    while status is None:
        done, found = os.waitpid(leader, os.WNOHANG)
        now = time.monotonic()
        if done:
            status = os.waitstatus_to_exitcode(found)
        elif now - looked_at < 1:
            time.sleep(0.02)
        else:
            looked_at = now
            cpu_s = session_cpu_s(leader)
            if cpu_s != used:
                used, used_at = cpu_s, now
            if cpu_s > limit_s or now - used_at > STALLED_S + limit_s:
                break
    with contextlib.suppress(ProcessLookupError):
        os.killpg(leader, signal.SIGKILL)
    if status is None:
        os.waitpid(leader, 0)
    return status


def session_cpu_s(leader: int) -> float:
    """CPU time of the processes of a session, and of those that they have waited for, in seconds."""
    ticks = 0
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            fields = path.read_text().rpartition(")")[2].split()
            if int(fields[3]) == leader:  # the session; then utime, stime, cutime and cstime
                ticks += sum(map(int, fields[11:15]))
    return ticks / os.sysconf("SC_CLK_TCK")


def preload() -> None:
    """Import what every run of tests needs, so that a process that begins as a copy of this one has it.

    hypothesis takes three quarters of the time of a short run otherwise, whether or not a test uses it.
    """
    for name in ("numpy", "pytest", "hypothesis.strategies", "hypothesis.internal.entropy"):
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
    for entry in importlib.metadata.entry_points(group="pytest11"):
        with contextlib.suppress(Exception):
            entry.load()


def run_tests(tests: list[str], limit_s: float) -> bool:
    """Whether tests pass in a fork of this process, within a limit of CPU time."""
    import pytest

    _FAILED.write_text("{}")
    child = os.fork()
    if child == 0:
        status = 1
        with contextlib.suppress(BaseException):
            os.setsid()
            os.chdir(TREE)
            nowhere = os.open(os.devnull, os.O_RDWR)
            for number in range(3):
                os.dup2(nowhere, number)
            sys.path = [
                f"{TREE}/python",
                f"{TREE}/tests/tools",
                *(p for p in sys.path if p != _HERE),
            ]
            os.environ["PYTHONPATH"] = os.pathsep.join(sys.path[:2])
            os.environ["MUTANTS_TESTS"] = str(_FAILED)
            # Plugins are imported already, which pytest warns of.
            more = ["-p", "mutant_contexts", "-W", "ignore::pytest.PytestAssertRewriteWarning"]
            status = int(pytest.main(["-x", "-q", "-p", "no:cacheprovider", *more, *tests]))
        os._exit(status)
    return wait_for(child, limit_s) == 0


def failed_tests() -> Iterable[str]:
    """Return the tests that failed in the last run_tests()."""
    return json.loads(_FAILED.read_text() or "{}").get("failed", [])
