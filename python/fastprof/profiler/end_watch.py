# SPDX-License-Identifier: Apache-2.0
"""EndWatch: tells a followed process that the profile has ended, which may be at any time."""

from __future__ import annotations

import _thread
import contextlib
import os
import select
import signal
from collections.abc import Callable

from fastprof.record.own_descriptor import OwnDescriptor

__all__ = ["EndWatch"]

_PERIOD_MS = 1000


class EndWatch:
    """A thread that waits for the end of the profile. Pause it while this process forks: Python warns of threads."""

    def __init__(
        self,
        end: OwnDescriptor,
        ended: Callable[[], object],
        meanwhile: Callable[[], object] | None = None,
    ) -> None:
        """end: polls as hung up once the profile has ended (ShardFolder.reader). ended: called on the thread then.

        meanwhile: called on the thread once a second, until then; None: the thread sleeps.
        """
        self._end = end
        self._ended = ended
        self._meanwhile = meanwhile
        reader, writer = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        self._woken, self._wake = OwnDescriptor(reader), OwnDescriptor(writer)
        self._gone = _thread.allocate_lock()

    def begin(self) -> None:
        """Start the thread; it does not count as one of the program's (threading)."""
        if not (self._end.is_ours() and self._woken.is_ours()):
            return  # the recording lasts as long as the process
        self._gone.acquire(blocking=False)
        try:
            _thread.start_new_thread(self._wait, ())
        except RuntimeError:  # no thread can be had: the recording lasts as long as the process
            self._gone.release()

    def pause(self) -> None:
        """End the thread and wait for it, which takes microseconds."""
        if not (self._wake.is_ours() and self._woken.is_ours()):
            return  # the program closed all descriptors: the thread stays as it is
        os.write(self._wake.number, b"x")
        if self._gone.acquire(timeout=1):
            self._gone.release()
        with contextlib.suppress(BlockingIOError):
            os.read(self._woken.number, 16)

    def close(self) -> None:
        """Close the descriptors: on the thread at its end, or in a forked child, where it does not exist."""
        for descriptor in (self._end, self._woken, self._wake):
            descriptor.close()

    def _wait(self) -> None:
        try:
            signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
            poll = select.poll()
            poll.register(self._end.number, 0)  # only that it hangs up
            poll.register(self._woken.number, select.POLLIN)
            while True:
                ready = dict(poll.poll(None if self._meanwhile is None else _PERIOD_MS))
                if ready or self._meanwhile is None:
                    break
                self._meanwhile()
            if ready.get(self._end.number, 0) & select.POLLHUP and self._end.is_ours():
                self._ended()
                self.close()
        finally:
            self._gone.release()
