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


def eventually(condition: object) -> bool:
    """Return whether a condition becomes true within a minute."""
    deadline = time.monotonic() + 60
    while not condition() and time.monotonic() < deadline:  # type: ignore[operator]
        time.sleep(0.001)
    return bool(condition())  # type: ignore[operator]


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
