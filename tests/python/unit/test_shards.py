# SPDX-License-Identifier: Apache-2.0
"""Names of followed processes, sentences of a report, and the order in which shards are read."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import fastprof
from fastprof.profiler.shards import (
    MISSING_COUNTS,
    Shard,
    display_name,
    join_sentences,
    read_shards,
)
from fastprof.record.shard_folder import ShardFolder


def shard(pid: int = 7, *, alive: bool = False, path: str = "7-1.shard", **facts: Any) -> Shard:
    """Return the shard of a process that does not exist."""
    capture: Any = SimpleNamespace(pid=pid, process_name="python3", t0_ns=1000)
    known = {
        "metadata": {},
        "unix_offset_ns": 50,
        "parent_pid": 1,
        "open_ranges": 2,
        "opened_monotonic_ns": 0,
        **dict.fromkeys(MISSING_COUNTS, 0),
    }
    return Shard(path, capture, known | facts, alive)


@pytest.mark.parametrize(
    ("metadata", "name"),
    [
        ({"name": "Process-3", "argv": "train.py"}, "Process-3"),
        ({"name": "MainProcess", "argv": "folder/train.py --fast x.py"}, "train.py"),
        ({"argv": "folder/train.py"}, "train.py"),
        ({"argv": "-c"}, "python3"),
        ({"argv": "tool x.py"}, "python3"),
        ({}, "python3"),
    ],
)
def test_names_of_processes(metadata: dict[str, str], name: str) -> None:
    assert display_name(shard(metadata=metadata)) == name


def test_sentences_are_told_once_and_not_endlessly() -> None:
    assert join_sentences([]) == ""
    assert join_sentences(["a", "b", "a"]) == "a; b"
    assert join_sentences(map(str, range(8))) == "0; 1; 2; 3; 4; 5; 6; 7"
    assert join_sentences(map(str, range(10))) == "0; 1; 2; 3; 4; 5; 6; 7; and 2 more"
    assert join_sentences(["a", "b"], most=1) == "a; and 1 more"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ShardFolder]:
    monkeypatch.setattr("fastprof.record.shard_folder._shared_memory", lambda: str(tmp_path))
    made = ShardFolder.make({})
    yield made
    made.remove()


def copy_of_a_shard(target: Path, name: str) -> None:
    """Copy the backing file of a running profile of this process."""
    running = target.with_suffix(".running")
    with fastprof.profile(backing_file=running), fastprof.record_function(name):
        shutil.copy(running, target)


def test_folders_are_read_in_the_order_of_time(folder: ShardFolder) -> None:
    paths = [Path(folder.path, name) for name in ("2-0.shard", "1-0.shard")]
    for number, path in enumerate(paths):
        copy_of_a_shard(path, f"range {number}")
    Path(folder.path, "3-0.shard").write_text("no shard")
    folder.note("one stack is missing")
    found, problems = read_shards(folder)
    assert [one.path for one in found] == [str(path) for path in paths]
    assert all(one.alive and one.capture.pid == os.getpid() for one in found)
    note, unreadable = problems
    assert note == f"process {os.getpid()}: one stack is missing"
    assert unreadable.startswith("the records in 3-0.shard cannot be read: ")
    _, limited = read_shards(folder, max_bytes=1)
    assert len(limited) == 4 and all("cannot be read" in problem for problem in limited[1:])


# ---- FollowedChildren: what is reported when processes cannot be followed --------------------------
