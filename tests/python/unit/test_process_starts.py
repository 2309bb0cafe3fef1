# SPDX-License-Identifier: Apache-2.0
"""process_starts: the environment of new processes, an arrow for each start, and restoring everything at the end."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator

import pytest
from processes import run_python

import fastprof
from fastprof.model.table import EventKind
from fastprof.record import process_starts

FORK_EXEC, SPAWN = 5, 2  # where fork_exec and posix_spawn take the environment


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """Follow processes into the folder /shards, with the number 5. The list gets an element for each start."""
    monkeypatch.setenv("PYTHONPATH", "/p")
    starts: list[int] = []
    process_starts.begin("/shards", 5, lambda: starts.append(1))
    yield starts
    process_starts.end()


def test_what_the_program_did_to_the_path_stays(counted: list[int]) -> None:
    os.environ["PYTHONPATH"] = "/mine:/p"
    process_starts.end()
    assert os.environ["PYTHONPATH"] == "/mine:/p"


@pytest.mark.parametrize("close_fds", [True, False])  # by fork_exec, by posix_spawn
def test_a_program_with_an_environment_of_its_own_is_followed(
    close_fds: bool, counted: list[int]
) -> None:
    with fastprof.profile() as profile:
        process = subprocess.Popen(
            ["/usr/bin/env"], env={"A": "1"}, close_fds=close_fds, stdout=subprocess.PIPE, text=True
        )
        told = dict(line.split("=", 1) for line in process.communicate(timeout=60)[0].splitlines())
    assert told["A"] == "1" and told["FASTPROF_FOLLOW"] == "/shards"
    assert told["PYTHONPATH"] == os.environ["PYTHONPATH"].partition(":")[0]
    assert counted == [1]
    (event,) = profile.events().instants([EventKind.FLOW_BEGIN])
    assert event.name == process_starts.LINK_NAME == "child process"
    assert event.value == 5 << 48 | process.pid << 20


RECORDS = "import fastprof\nwith fastprof.record_function('c'): pass"


@pytest.mark.parametrize(
    "start",
    [
        "subprocess.run(call, env={**os.environ, 'PYTHONPATH': '/tmp'}, check=True)",
        "subprocess.run(call, env={'FASTPROF_FOLLOW': os.environ['FASTPROF_FOLLOW']}, check=True)",
        "os.environ.pop('PYTHONPATH'); subprocess.run(call, check=True)",
        "with mock.patch.dict(os.environ, {'PYTHONPATH': '/tmp'}): subprocess.run(call, check=True)",
        "with mock.patch.dict(os.environ, clear=True): subprocess.run(call, check=True, close_fds=False)",
        "with mock.patch.dict(os.environ, clear=True): assert os.system(shlex.join(call)) == 0",
        "os.fork() or os.execve(call[0], call, {'PYTHONPATH': '/tmp'}); os.wait()",
        "os.fork() or (os.environ.clear(), os.execv(call[0], call)); os.wait()",
    ],
)
def test_each_variable_is_repaired_by_itself(start: str) -> None:
    """A program that passes on one of our variables, or that has changed os.environ, is still recorded."""
    output = run_python(
        f"""
        import os, shlex, subprocess, sys
        from unittest import mock
        import fastprof
        os.environ.pop("PYTHONPATH")
        before = dict(os.environ)
        call = [sys.executable, "-c", {RECORDS!r}]
        with fastprof.profile(follow_children=True) as p:
            {start}
        print(sum(e.name == "c" for e in p.events()), p.missing, dict(os.environ) == before)
        """
    )
    assert output == "1 {} True\n"
