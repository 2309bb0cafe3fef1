# SPDX-License-Identifier: Apache-2.0
"""What followed processes need before anything is recorded: their folder, the environment, descriptors."""

from __future__ import annotations

import os
import select
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import fastprof
from fastprof import errors
from fastprof.profiler.child import options_for_children
from fastprof.record import process_starts
from fastprof.record.own_descriptor import OwnDescriptor
from fastprof.record.shard_folder import ShardFolder, process_start


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ShardFolder]:
    monkeypatch.setattr("fastprof.record.shard_folder._shared_memory", lambda: str(tmp_path))
    made = ShardFolder.make({"number": 3})
    yield made
    made.remove()
    assert list(tmp_path.iterdir()) == []


def test_only_this_user_can_read_it(folder: ShardFolder) -> None:
    assert stat.S_IMODE(os.stat(folder.path).st_mode) == 0o700
    assert ShardFolder(folder.path).options() == {"number": 3}


def test_readers_see_the_end_of_the_profile(folder: ShardFolder) -> None:
    assert folder.reader() is None  # nobody holds it
    held = folder.hold()
    reader = folder.reader()
    assert reader is not None
    poll = select.poll()
    poll.register(reader, 0)
    assert poll.poll(0) == []
    os.close(held)
    assert poll.poll(0) == [(reader, select.POLLHUP)]
    os.close(reader)
    assert folder.reader() is None


def test_a_folder_that_is_gone_asks_for_nothing(tmp_path: Path) -> None:
    gone = ShardFolder(str(tmp_path / "gone"))
    assert gone.options() is None and gone.reader() is None
    gone.note("nobody reads this")
    gone.remove()


def test_each_program_of_a_process_has_a_shard(folder: ShardFolder) -> None:
    paths = []
    for _ in range(3):
        paths.append(folder.new_shard())
        Path(paths[-1]).touch()
    assert len(set(paths)) == 3
    start = process_start(os.getpid())
    assert all(os.path.basename(path).startswith(f"{os.getpid()}-{start}") for path in paths)
    assert folder.shards() == sorted(paths)


def test_notes_are_lines(folder: ShardFolder) -> None:
    folder.note("first\nline")
    folder.note("second \udc80")
    assert list(folder.notes()) == [(os.getpid(), "first line"), (os.getpid(), "second ?")]


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


def test_start_of_processes() -> None:
    child = subprocess.Popen([sys.executable, "-c", ""])
    assert process_start(os.getpid()) is not None
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    assert process_start(child.pid) is None  # a zombie
    child.wait(timeout=60)
    assert process_start(child.pid) is None


def test_a_descriptor_of_somebody_else_is_left_alone(tmp_path: Path) -> None:
    ours = OwnDescriptor(os.open(tmp_path, os.O_RDONLY))
    assert ours.is_ours()
    os.close(ours.number)
    assert not ours.is_ours()
    other = os.open(__file__, os.O_RDONLY)
    try:
        assert other == ours.number
        assert not ours.is_ours()
        ours.close()
        os.fstat(other)
    finally:
        os.close(other)


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


def test_no_environment_is_inherited() -> None:
    assert process_starts.with_folder(None, "/shards") is None


def test_numbers_of_arrows_differ() -> None:
    following = process_starts.Followed("/shards", 32767)
    numbers = [following.next_fork() for _ in range(1000)]
    numbers += [following.link_of(pid) for pid in (os.getpid(), 1, 4194303)]
    assert len(set(numbers)) == len(numbers) and 0 < min(numbers) <= max(numbers) < 1 << 63


def test_children_get_the_options_as_plain_values() -> None:
    options = fastprof.profile(
        record_shapes=True,
        overflow="spill",
        max_bytes=1 << 20,
        python_calls=fastprof.CallFilter(modules=["a"], max_depth=3),
    )._options
    told = options_for_children(options)
    assert told["recording"]["record_shapes"] is True
    assert told["recording"]["max_bytes"] == 1 << 20
    assert told["recording"]["overflow"] == 0  # a shard cannot be spilled
    assert told["python_calls"]["max_depth"] == 3
    import json

    assert json.loads(json.dumps(told))["python_calls"]["modules"] == ["a"]


def test_a_folder_without_shards_cannot_be_recovered(folder: ShardFolder) -> None:
    folder.note("not recorded: no room")
    with pytest.raises(errors.FormatError, match="no room"):
        fastprof.recover(folder.path)
