# SPDX-License-Identifier: Apache-2.0
"""Shards of followed processes: reading, descriptions of processes, merging; FollowedChildren without children."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import fastprof
from fastprof import _core
from fastprof.profiler import shards
from fastprof.profiler.child import options_for_children
from fastprof.profiler.children import FollowedChildren, _close
from fastprof.profiler.shards import (
    MISSING_COUNTS,
    Shard,
    display_name,
    join_sentences,
    merge_processes,
    process_of,
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


class _Capture(list[int]):
    pid, process_name, t0_ns = 7, "python3", 1000


def test_what_is_told_of_a_process() -> None:
    capture: Any = _Capture([1, 2, 3])
    facts: dict[str, Any] = {"metadata": {"name": "worker", "rank": "4"}, "damaged": 5}
    described = process_of(shard(**facts)._replace(capture=capture, alive=True), 20)
    assert described == {
        "pid": 7,
        "parent_pid": 1,
        "name": "worker",
        "start_ns": 1020,
        "rows": 3,
        "open_ranges": 2,
        "alive": True,
        "rank": "4",
        "damaged": 5,
    }
    assert process_of(shard()._replace(capture=capture))["start_ns"] == 1000


def test_processes_are_moved_to_one_clock_and_the_living_end_now(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    merge = SimpleNamespace(merge_captures=lambda parts: parts)
    monkeypatch.setattr(shards, "_core", merge)
    first: Any = object()
    earlier = shard(7, alive=True, metadata={"name": "seven"}, unix_offset_ns=45)
    later = shard(7, alive=True)  # the same process executes another program
    ended = shard(8, metadata={"name": "eight"})
    parts: Any = merge_processes([earlier, later, ended], first=first, unix_offset_ns=52, now_ns=99)
    assert parts == [
        (first, 0, None, ""),
        (earlier.capture, 7, None, "seven"),
        (later.capture, 2, 99, "python3"),
        (ended.capture, 2, None, "eight"),
    ]
    assert merge_processes([ended], unix_offset_ns=50) == [(ended.capture, 0, None, "eight")]  # type: ignore[comparison-overlap]


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


def test_what_is_missing_of_a_shard_is_told(
    folder: ShardFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("1-0.shard", "2-0.shard"):
        Path(folder.path, name).touch()
    answers = [
        shard(11, damaged=3, names_lost=2, opened_monotonic_ns=6, process_start=-1),
        shard(12, opened_monotonic_ns=5, process_start=-1),
    ]
    core = SimpleNamespace(
        recover=lambda path, **_: answers[int(Path(path.decode()).name[0]) - 1][1:3]
    )  # fmt: skip
    monkeypatch.setattr(shards, "_core", core)
    found, problems = read_shards(folder)
    assert [one.capture.pid for one in found] == [12, 11]
    assert [one.alive for one in found] == [False, False]
    assert problems == ["process 11: incomplete: 3 damaged, 2 names_lost"]


# ---- FollowedChildren: what is reported when processes cannot be followed --------------------------


def of_a_profile() -> tuple[FollowedChildren, dict[str, str], _core.Capture]:
    options = replace(fastprof.profile()._options, quiet=True)
    session = _core.Session()
    session.start()
    return FollowedChildren(options), options.missing, session.stop({})


def test_a_second_profile_does_not_follow(monkeypatch: pytest.MonkeyPatch) -> None:
    children, missing, capture = of_a_profile()
    monkeypatch.setattr("fastprof.profiler.child.is_followed", lambda: True)
    children.start()
    assert missing.keys() == {"follow_children"}
    assert "followed by another profile" in missing["follow_children"]
    merged, (own,) = children.merged_with(capture)
    assert merged is capture
    assert own == {
        "pid": os.getpid(),
        "parent_pid": os.getppid(),
        "name": capture.process_name,
        "start_ns": capture.t0_ns,
        "rows": 0,
    }
    children.close()  # nothing to remove


def test_a_folder_that_cannot_be_made_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(options: dict[str, Any]) -> ShardFolder:
        assert 0 <= options["links"] < 1 << 15 and "recording" in options
        raise OSError("no room")

    monkeypatch.setattr(ShardFolder, "make", fail)
    children, missing, _ = of_a_profile()
    children.start()
    assert "(no room): set TMPDIR" in missing["follow_children"]
    assert "FASTPROF_FOLLOW" not in os.environ


def test_only_the_profiles_process_removes_the_folder(folder: ShardFolder) -> None:
    _close(folder, os.getpid() + 1)  # as in a forked child
    assert os.path.isdir(folder.path)
    _close(folder, os.getpid())
    assert not os.path.exists(folder.path)


def test_children_drop_instead_of_spilling() -> None:
    for overflow, told in (("overwrite_oldest", 1), ("drop_newest", 0), ("spill", 0)):
        options = fastprof.profile(overflow=overflow)._options
        given = options_for_children(options)
        assert given["recording"]["overflow"] == told
        assert given["python_calls"] is None and given["version"] == fastprof.__version__
