# SPDX-License-Identifier: Apache-2.0
"""process_starts: the environment of new processes, an arrow for each start, and restoring everything at the end."""

from __future__ import annotations

import _posixsubprocess
import os
import subprocess
from collections.abc import Iterator
from typing import Any

import pytest

import fastprof
from fastprof.model.table import EventKind
from fastprof.record import process_starts

FORK_EXEC, SPAWN = 5, 2  # where fork_exec and posix_spawn take the environment


def functions() -> list[Any]:
    """Return the functions that start processes, and the references that subprocess holds."""
    return [
        _posixsubprocess.fork_exec,
        getattr(
            subprocess, "_fork_exec", _posixsubprocess.fork_exec
        ),  # CPython 3.10 has no reference
        os.posix_spawn,
        os.posix_spawnp,
    ]


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """Follow processes into the folder /shards, with the number 5. The list gets an element for each start."""
    monkeypatch.setenv("PYTHONPATH", "/p")
    starts: list[int] = []
    process_starts.begin("/shards", 5, lambda: starts.append(1))
    yield starts
    process_starts.end()


def test_the_environment_names_the_folder_until_the_end(counted: list[int]) -> None:
    assert os.environ["FASTPROF_FOLLOW"] == "/shards"
    startup, _, rest = os.environ["PYTHONPATH"].partition(os.pathsep)
    assert os.path.exists(os.path.join(startup, "sitecustomize.py")) and rest == "/p"
    process_starts.begin("/others", 6, lambda: None)
    assert os.environ["FASTPROF_FOLLOW"] == "/others"
    assert os.environ["PYTHONPATH"] == f"{startup}:/p"  # once
    for _ in range(2):
        process_starts.end()
        assert "FASTPROF_FOLLOW" not in os.environ and os.environ["PYTHONPATH"] == "/p"
        assert process_starts.followed() is None


def test_a_path_that_was_not_set_is_not_set_afterwards(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PYTHONPATH", raising=False)
    process_starts.end()  # nothing was begun
    assert "PYTHONPATH" not in os.environ
    process_starts.begin("/shards", 5, lambda: None)
    try:
        assert os.path.isdir(os.environ["PYTHONPATH"])  # one folder, without a separator
    finally:
        process_starts.end()
    assert "PYTHONPATH" not in os.environ


def test_what_the_program_did_to_the_path_stays(counted: list[int]) -> None:
    os.environ["PYTHONPATH"] = "/mine:/p"
    process_starts.end()
    assert os.environ["PYTHONPATH"] == "/mine:/p"


def test_functions_that_start_processes_are_exchanged_once_and_put_back() -> None:
    before = functions()
    process_starts.begin("/shards", 5, lambda: None)
    try:
        during = functions()
        assert all(a is not b for a, b in zip(before, during, strict=True))
        assert during[0] is during[1] and os.posix_spawn.__name__ == "posix_spawn"
        process_starts.begin("/others", 6, lambda: None)
        assert functions() == during
    finally:
        process_starts.end()
    assert functions() == before


def test_what_the_program_exchanged_meanwhile_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    before = functions()
    monkeypatch.setattr(os, "posix_spawn", os.posix_spawn)  # so that it is restored
    process_starts.begin("/shards", 5, lambda: None)
    kept: Any = os.posix_spawn

    def theirs(*args: Any) -> int:
        pid: int = kept(*args)
        return pid

    monkeypatch.setattr(os, "posix_spawn", theirs)
    process_starts.end()
    assert os.posix_spawn is theirs
    assert functions()[:2] == before[:2] and functions()[3] == before[3]
    # Their function still calls ours, which now only passes the call on.
    assert os.waitpid(theirs("/bin/true", ["true"], {}), 0)[1] == 0


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


def test_posix_spawnp_is_followed(counted: list[int]) -> None:
    code = 'test "$FASTPROF_FOLLOW" = /shards'
    process = os.posix_spawnp("sh", ["sh", "-c", code], {"PATH": os.defpath})
    assert os.waitpid(process, 0)[1] == 0 and counted == [1]


@pytest.mark.parametrize(
    "given",
    [
        {"A": "1", "PYTHONPATH": "/p"},
        {b"A": b"1", b"PYTHONPATH": b"/p"},
        [b"A=1", b"PYTHONPATH=/p"],
    ],
)
def test_an_environment_of_its_own_gets_the_folder(given: Any) -> None:
    found = process_starts.with_folder(given, "/shards")
    if isinstance(found, list):
        found = dict(entry.split(b"=", 1) for entry in found)
    assert found[b"A"] == b"1" and found[b"FASTPROF_FOLLOW"] == b"/shards"
    startup, _, rest = found[b"PYTHONPATH"].partition(b":")
    assert os.path.exists(os.path.join(startup, b"sitecustomize.py")) and rest == b"/p"
    assert process_starts.with_folder(found, "/shards") is found  # nothing to add
    entries = [key + b"=" + value for key, value in found.items()]
    assert process_starts.with_folder(entries, "/shards") is entries
    moved = process_starts.with_folder(found, "/others")  # a profile within the followed process
    assert moved == found | {b"FASTPROF_FOLLOW": b"/others"}
