# SPDX-License-Identifier: Apache-2.0
"""ShardFolder: options, shards and notes in it, the end of the profile, removal; names of processes."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import fastprof
from fastprof import errors
from fastprof.profiler.shards import name_from
from fastprof.record.shard_folder import ShardFolder, process_start


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ShardFolder]:
    monkeypatch.setattr("fastprof.record.shard_folder._shared_memory", lambda: str(tmp_path))
    made = ShardFolder.unused()
    made.create({"number": 3})
    yield made
    made.remove()
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_is_gone_asks_for_nothing(tmp_path: Path) -> None:
    gone = ShardFolder(str(tmp_path / "gone"))
    assert gone.options() is None and gone.reader() is None
    gone.note("nobody reads this")
    gone.remove()


def test_compacting_keeps_every_byte_of_ended_processes(folder: ShardFolder) -> None:
    data = b"x" * 5000 + bytes(100_000) + b"y" + bytes(50_000)
    ended, running = Path(folder.path, "1-0.shard"), Path(folder.new_shard())
    for path in (ended, running):
        path.write_bytes(data)
    before = {path: path.stat() for path in (ended, running)}
    folder.compact(set())
    assert ended.read_bytes() == running.read_bytes() == data
    assert ended.stat().st_blocks < before[ended].st_blocks
    assert running.stat().st_ino == before[running].st_ino
    assert len(folder.shards()) == 2


def test_a_copy_that_fails_leaves_the_shard(
    folder: ShardFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = Path(folder.path, "1-0.shard")
    path.write_bytes(b"records")

    def fail(*_: object) -> None:
        raise OSError("no room")

    monkeypatch.setattr(os, "replace", fail)
    folder.compact(set())
    monkeypatch.undo()
    assert path.read_bytes() == b"records" and folder.shards() == [str(path)]
    assert sorted(os.listdir(folder.path)) == ["1-0.shard", "options.json", "running"]


def test_start_of_processes() -> None:
    child = subprocess.Popen([sys.executable, "-c", ""])
    began = process_start(child.pid)
    now = time.clock_gettime(time.CLOCK_BOOTTIME) * 100
    assert began is not None and now - 60_000 < began <= now + 1
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    assert process_start(child.pid) is None  # a zombie
    child.wait(timeout=60)
    assert process_start(child.pid) is None


def test_a_folder_without_shards_cannot_be_recovered(folder: ShardFolder) -> None:
    folder.note("not recorded: no room")
    with pytest.raises(errors.FormatError, match="no room"):
        fastprof.recover(folder.path)


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
def test_names_of_followed_processes(metadata: dict[str, str], name: str) -> None:
    assert name_from(metadata, "python3") == name
