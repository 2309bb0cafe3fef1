# SPDX-License-Identifier: Apache-2.0
"""EndWatch: the thread in a followed process that waits for the end of the profile."""

from __future__ import annotations

import os
import select
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from fastprof.profiler import end_watch
from fastprof.profiler.end_watch import EndWatch
from fastprof.record.own_descriptor import OwnDescriptor


class Profile:
    """The profile as a followed process sees it: a pipe whose other end closes when the profile ends."""

    def __init__(self) -> None:
        reader, self.writer = os.pipe()
        self.over = threading.Event()
        self.threads_before = set(os.listdir("/proc/self/task"))
        self.watch = EndWatch(OwnDescriptor(reader), self.over.set)
        self.descriptors = [
            self.watch._end.number,
            self.watch._woken.number,
            self.watch._wake.number,
        ]

    def end(self) -> None:
        os.close(self.writer)
        self.writer = -1

    def threads(self) -> set[str]:
        """Return the threads that have started since."""
        return set(os.listdir("/proc/self/task")) - self.threads_before

    def is_waiting(self) -> bool:
        """Return whether the thread runs; it releases the lock when it ends."""
        gone: bool = self.watch._gone.acquire(timeout=0.2)
        if gone:
            self.watch._gone.release()
        return not gone


@pytest.fixture
def profile() -> Iterator[Profile]:
    made = Profile()
    yield made
    if made.writer >= 0:
        made.watch.pause()
        made.end()
    assert made.watch._gone.acquire(timeout=60)
    made.watch.close()


def is_open(descriptor: int) -> bool:
    try:
        os.fstat(descriptor)
    except OSError:
        return False
    return True


def eventually(condition: object) -> bool:
    """Return whether a condition becomes true within a minute."""
    deadline = time.monotonic() + 60
    while not condition() and time.monotonic() < deadline:  # type: ignore[operator]
        time.sleep(0.001)
    return bool(condition())  # type: ignore[operator]


def test_the_end_is_told_and_the_descriptors_are_closed(profile: Profile) -> None:
    profile.watch.begin()
    assert profile.is_waiting() and not profile.over.is_set()
    profile.end()
    assert profile.over.wait(60)
    assert eventually(lambda: not any(map(is_open, profile.descriptors)))
    assert eventually(lambda: profile.threads() == set())


def test_the_end_is_told_to_those_who_wait_for_input(
    profile: Profile, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on macOS, whose poll() reports to nobody else that a descriptor hangs up."""
    monkeypatch.setattr(end_watch, "_HANGS_UP", select.POLLIN)
    profile.watch.begin()
    assert profile.is_waiting() and not profile.over.is_set()
    profile.watch.pause()
    assert eventually(lambda: not profile.is_waiting()) and not profile.over.is_set()
    profile.watch.begin()
    profile.end()
    assert profile.over.wait(60)


def test_an_end_before_the_begin_is_told_too(profile: Profile) -> None:
    profile.end()
    profile.watch.begin()
    assert profile.over.wait(60)


def test_no_thread_is_there_during_a_pause(profile: Profile) -> None:
    for _ in range(3):
        profile.watch.begin()
        assert profile.is_waiting()
        profile.watch.pause()
        assert eventually(lambda: not profile.is_waiting())
        assert eventually(lambda: profile.threads() == set())
    profile.end()
    assert not profile.over.is_set()
    profile.watch.begin()
    assert profile.over.wait(60)


def test_a_pause_during_the_end_leaves_the_programs_files_alone(tmp_path: Path) -> None:
    """The thread closes its descriptors while pause() waits for it; the program's next files get their numbers."""
    reader, writer = os.pipe()
    ending, files = threading.Event(), list[int]()

    def close_and_open() -> None:
        close()
        (tmp_path / "input").write_text("of the program")
        files.extend(os.open(tmp_path / "input", os.O_RDWR) for _ in range(3))

    def ended() -> None:
        ending.set()
        assert eventually(lambda: select.select([watch._woken.number], [], [], 0)[0])

    watch = EndWatch(OwnDescriptor(reader), ended)
    close, watch.close = watch.close, close_and_open  # type: ignore[method-assign]
    own = {watch._end.number, watch._woken.number, watch._wake.number}
    watch.begin()
    os.close(writer)
    assert ending.wait(60)
    watch.pause()
    assert set(files) & own
    assert [os.lseek(number, 0, os.SEEK_CUR) for number in files] == [0, 0, 0]
    for number in files:
        os.close(number)


def test_a_close_on_two_threads_closes_nothing_of_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    is_ours, closing = OwnDescriptor.is_ours, threading.Event()
    program = threading.get_ident()

    def slowly(descriptor: OwnDescriptor) -> bool:
        found = is_ours(descriptor)
        if threading.get_ident() != program and descriptor is watch._wake:
            closing.set()
            time.sleep(0.1)
        return found

    reader, writer = os.pipe()
    watch = EndWatch(OwnDescriptor(reader), lambda: None)
    monkeypatch.setattr(OwnDescriptor, "is_ours", slowly)
    os.close(writer)
    watch.begin()
    assert closing.wait(60)
    watch.close()
    (tmp_path / "other").touch()
    others = [os.open(tmp_path / "other", os.O_RDONLY) for _ in range(4)]
    assert watch._gone.acquire(timeout=60)
    for number in others:
        os.close(number)


def test_signals_are_for_the_programs_threads(profile: Profile) -> None:
    profile.watch.begin()
    assert eventually(lambda: len(profile.threads()) == 1)
    (thread,) = profile.threads()

    def blocked() -> int:
        status = Path(f"/proc/self/task/{thread}/status").read_text()
        (line,) = (line for line in status.splitlines() if line.startswith("SigBlk"))
        return int(line.split()[1], 16)

    assert eventually(lambda: blocked() & 1 << (signal.SIGINT - 1))
    assert threading.active_count() == len(threading.enumerate())
    assert all(str(t.native_id) != thread for t in threading.enumerate())


def test_a_program_that_closes_all_descriptors(profile: Profile, tmp_path: Path) -> None:
    """Daemons do so. Their own files get the same numbers: nothing may be written into those."""
    for descriptor in profile.descriptors:
        os.close(descriptor)
    files = [os.open(tmp_path / str(i), os.O_RDWR | os.O_CREAT) for i in range(3)]
    try:
        assert sorted(files) == sorted(profile.descriptors)
        profile.watch.begin()
        assert not profile.is_waiting() and profile.threads() == set()
        profile.watch.pause()
        profile.watch.close()
        assert [os.fstat(descriptor).st_size for descriptor in files] == [0, 0, 0]
    finally:
        for descriptor in files:
            os.close(descriptor)


def test_closing_in_a_forked_child(profile: Profile) -> None:
    profile.watch.close()
    assert not any(map(is_open, profile.descriptors))
    profile.watch.close()
    profile.watch.begin()
    profile.watch.pause()
    assert not profile.over.is_set()
