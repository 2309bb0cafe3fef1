# SPDX-License-Identifier: Apache-2.0
"""The recording of a followed process: options from the profile's folder, notes, names, compaction of shards.

Nothing is recorded here; tests/python/integration/test_follow_children.py starts processes.
"""

from __future__ import annotations

import os
import sys
import threading
import types
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import fastprof
from fastprof.profiler import child, child_recording
from fastprof.profiler.child import options_for_children, record_executed
from fastprof.profiler.child_recording import ChildRecording
from fastprof.record.shard_folder import ShardFolder


class Recorded:
    """A double of Recording: keeps its arguments and the calls."""

    made: list[Recorded] = []  # noqa: RUF012 - of all instances
    fails = False
    collects_devices = False

    def __init__(self, options: Any, *, facts: list[tuple[str, str]], keep_file: bool) -> None:
        self.options, self.facts, self.keep_file = options, list(facts), keep_file
        self.missing = {"counters": "not permitted", "known": "is said already"}
        self.calls: list[str] = []
        self.made.append(self)

    def start(self) -> None:
        self.calls.append("start")
        if self.fails:
            raise OSError("no memory")

    def release(self) -> None:
        self.calls.append("release")
        self.missing["late"] = "became known"

    def add_fact(self, key: str, value: str) -> None:
        self.facts.append((key, value))


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ShardFolder]:
    monkeypatch.setattr("fastprof.record.shard_folder._shared_memory", lambda: str(tmp_path))
    monkeypatch.setattr(child_recording, "Recording", Recorded)
    monkeypatch.setattr(Recorded, "made", [])
    for name in ("_for_children", "_recording", "_watch"):
        monkeypatch.setattr(child, name, None)
    monkeypatch.setattr(child, "_starts_since_compaction", 0)
    made = ShardFolder.make({"links": 3, **options_for_children(fastprof.profile()._options)})
    yield made
    made.remove()


def plain_options() -> Any:
    return child._options_from_json(options_for_children(fastprof.profile()._options))


def test_options_come_back_as_they_were() -> None:
    chosen = fastprof.profile(
        record_shapes=True,
        profile_memory=True,
        max_bytes=1 << 20,
        max_name_bytes=1 << 20,
        all_threads=False,
        python_calls=fastprof.CallFilter(modules=("a",), c_calls=False),
    )._options
    again = child._options_from_json(options_for_children(chosen))
    for name in child._RECORDING_OPTIONS:
        if name not in ("overflow", "all_threads"):
            assert getattr(again, name) == getattr(chosen, name), name
    assert again.python_calls == chosen.python_calls
    assert again.all_threads is chosen.all_threads and again.quiet is True
    assert again.activities == again.asked == frozenset() and again.filters == {}
    assert again.use_device is None and again.acc_events is False
    assert plain_options().python_calls is None


def test_a_recording_of_a_child(folder: ShardFolder) -> None:
    own = ChildRecording(folder, plain_options(), {"known"}, forked=False)
    own.add_fact("name", "too early")
    own.end()  # nothing has begun
    own.start([("argv", "train.py")])
    (made,) = Recorded.made
    assert made.facts == [("argv", "train.py")] and made.keep_file is True
    assert made.calls == ["start"]
    assert os.path.dirname(made.options.backing_file) == folder.path
    assert made.options.backing_file.endswith(".shard") and made.options.missing == {}
    own.add_fact("name", "worker")
    assert made.facts[-1] == ("name", "worker")
    pid = os.getpid()
    assert list(folder.notes()) == [(pid, "counters: not permitted")]
    own.stop()
    own.end()
    assert made.calls == ["start", "release"]
    assert list(folder.notes())[1:] == [(pid, "late: became known")]
    own.add_fact("name", "too late")
    assert made.facts[-1] == ("name", "worker")


def test_a_recording_that_cannot_start_is_released(
    folder: ShardFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Recorded, "fails", True)
    own = ChildRecording(folder, plain_options(), set(), forked=False)
    with pytest.raises(OSError, match="no memory"):
        own.start([])
    assert Recorded.made[0].calls == ["start", "release"]
    own.end()
    assert Recorded.made[0].calls == ["start", "release"]


@pytest.fixture
def begun(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Any, ...]]:
    """What record_executed() begins, which would last as long as the process."""
    calls: list[tuple[Any, ...]] = []
    monkeypatch.setattr(child, "_begin", lambda *given: calls.append(("begin", *given)))
    monkeypatch.setattr(child, "_start_recording", lambda *given: calls.append(("record", *given)))
    monkeypatch.setattr(child, "after_import", lambda *given: calls.append(("import", *given)))
    monkeypatch.setattr(sys, "orig_argv", ["python", "train.py"], raising=False)
    return calls


def test_a_process_that_executes_python(folder: ShardFolder, begun: list[Any]) -> None:
    record_executed(folder.path)
    begin, record = begun
    assert begin[0] == "begin" and begin[1].path == folder.path and begin[4] == 3
    assert begin[3] == set(fastprof.profile()._options.missing)
    assert record[:3] == ("record", child.process_facts(), 3 << 48 | os.getpid() << 20)
    assert record[3] is begin[2]  # options


def test_a_process_of_multiprocessing_gets_its_name_later(
    folder: ShardFolder, begun: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "orig_argv", ["python", "-c", "x", "--multiprocessing-fork"])
    record_executed(folder.path)
    assert [call[0] for call in begun] == ["begin", "import", "record"]
    assert begun[1] == ("import", "multiprocessing.spawn", child._record_spawned_name)


def test_what_is_not_recorded(
    folder: ShardFolder, begun: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    record_executed(folder.path + ".gone")  # the profile has ended
    with monkeypatch.context() as patch:
        helper = ["python", "-c", "from multiprocessing.resource_tracker import main"]
        patch.setattr(sys, "orig_argv", helper)
        record_executed(folder.path)
    assert begun == [] and list(folder.notes()) == []
    options = folder.options()
    assert options is not None
    monkeypatch.setattr(ShardFolder, "options", lambda _: {**options, "version": "0.0.1"})
    record_executed(folder.path)
    assert begun == []
    ((_, note),) = folder.notes()
    assert f"version {fastprof.__version__}, the profile 0.0.1. Install one" in note


def test_shards_are_compacted_now_and_then(
    folder: ShardFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    compacted: list[int] = []
    monkeypatch.setattr(
        ShardFolder, "compact", lambda *_: compacted.append(child._starts_since_compaction)
    )
    for _ in range(64):
        child._count_start()
    assert compacted == []  # nobody is followed
    monkeypatch.setattr(child, "_starts_since_compaction", 0)
    monkeypatch.setattr(child, "_for_children", (folder, plain_options(), set()))
    for expected in (0, 1, 2):
        assert len(compacted) == expected
        for _ in range(64):
            child._count_start()
    assert len(compacted) == 3

    def fail(*_: Any) -> None:
        raise OSError("gone")

    monkeypatch.setattr(ShardFolder, "compact", fail)
    for _ in range(64):
        child._count_start()


def test_names_of_multiprocessing(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[tuple[str, str]] = []

    class Own:
        def add_fact(self, key: str, value: str) -> None:
            told.append((key, value))

    process = types.SimpleNamespace(current_process=lambda: types.SimpleNamespace(name="worker 3"))
    monkeypatch.setitem(sys.modules, "multiprocessing.process", process)  # type: ignore[arg-type]
    monkeypatch.setattr(child, "_recording", None)
    child._record_process_name()
    assert told == []
    monkeypatch.setattr(child, "_recording", Own())
    child._record_process_name()
    prepared: list[Any] = []
    spawn: Any = types.SimpleNamespace(prepare=prepared.append)
    before = spawn.prepare
    monkeypatch.setitem(sys.modules, "multiprocessing.spawn", spawn)
    child._record_spawned_name()
    assert spawn.prepare is not before and told == [("name", "worker 3")]
    spawn.prepare({"name": "x"})
    assert prepared == [{"name": "x"}] and told == [("name", "worker 3")] * 2
    assert spawn.prepare == before
    monkeypatch.delitem(sys.modules, "multiprocessing.process")
    child._record_process_name()
    assert len(told) == 2


def test_an_ended_profile_stops_following_here(
    folder: ShardFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The folder has no writer: the profile has ended before this process could record."""
    ended: list[str] = []
    monkeypatch.setattr(child.process_starts, "end", lambda: ended.append("starts"))
    child._start_recording([], None)
    assert ended == [] and Recorded.made == []  # nobody is followed
    monkeypatch.setattr(child, "_for_children", (folder, plain_options(), set()))
    assert child.is_followed()
    child._start_recording([], None)
    assert ended == ["starts"] and not child.is_followed() and Recorded.made == []


def test_a_failure_to_record_is_noted(folder: ShardFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Recorded, "fails", True)
    monkeypatch.setattr(child, "_for_children", (folder, plain_options(), set()))
    held = folder.hold()
    threads = threading.active_count()
    before = len(os.listdir("/proc/self/fd"))
    try:
        child._start_recording([], 5)
        assert len(os.listdir("/proc/self/fd")) == before
    finally:
        os.close(held)
    assert child._recording is None and child._watch is None and threading.active_count() == threads
    assert list(folder.notes()) == [(os.getpid(), "not recorded: no memory")]


def test_what_is_missing_is_each_recordings_own(folder: ShardFolder) -> None:
    options = replace(plain_options(), missing={"counters": "of the parent"})
    recording = ChildRecording(folder, options, set(), forked=True)
    recording.start([("name", "worker")])
    (made,) = Recorded.made
    assert made.options.missing == {} and options.missing == {"counters": "of the parent"}
    assert made.options == replace(options, missing={}, backing_file=made.options.backing_file)
    assert Path(made.options.backing_file).parent.is_dir() and made.keep_file
    recording.end()


def test_devices_are_saved_without_waiting_for_another_thread(folder: ShardFolder) -> None:
    """Only the end waits: a thread that saves now and then leaves it to the one that does so already."""
    own = ChildRecording(folder, plain_options(), set(), forked=True)
    own._recording = types.SimpleNamespace(hand_over_devices=lambda file, end: handed.append(end))  # type: ignore[assignment]
    own._activities = types.SimpleNamespace(finish=lambda: None, problem="")  # type: ignore[assignment]
    handed: list[bool] = []
    own.save_activities()
    own._in_activities.acquire()
    own.save_activities()
    assert handed == [False]
    own._in_activities.release()
    own._write_activities(end=True)
    assert handed == [False, True] and not own.collects_devices
    own._write_activities(end=True)
    assert handed == [False, True]
