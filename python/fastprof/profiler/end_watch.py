# SPDX-License-Identifier: Apache-2.0
"""EndWatch: a thread of a followed process that waits for the end of the profile."""

from __future__ import annotations

import _thread
import contextlib
import os
import select
import signal
import sys
from collections.abc import Callable

from fastprof.record.own_descriptor import OwnDescriptor

__all__ = ["EndWatch"]

_PERIOD_MS = 1000
# macOS reports that a descriptor hangs up only to those who wait for input. None comes: nobody writes.
_HANGS_UP = select.POLLIN if sys.platform == "darwin" else 0


class EndWatch:
    """A thread that waits for the end of the profile, and then calls a function.

    Pause it while this process forks: Python warns of forks in processes with several threads. `begin`, `pause`
    and `close` are called by one thread at a time.
    """

    def __init__(
        self,
        end: OwnDescriptor,
        ended: Callable[[], object],
        meanwhile: Callable[[], object] | None = None,
    ) -> None:
        """end: descriptor that polls as hung up once the profile has ended (ShardFolder.reader).

        ended: called then, on the thread. meanwhile: called on the thread once a second until then; None: the
        thread sleeps.
        """
        self._end = end
        self._ended = ended
        self._meanwhile = meanwhile
        reader, writer = os.pipe()  # closed by exec
        for pipe_end in (reader, writer):
            os.set_blocking(pipe_end, False)
        self._woken, self._wake = OwnDescriptor(reader), OwnDescriptor(writer)
        self._gone = _thread.allocate_lock()
        # Held while descriptors are closed or used by their numbers, which others get after that.
        self._numbers = _thread.allocate_lock()

    def begin(self) -> None:
        """Start the thread; it is not listed by threading.enumerate()."""
        if not (self._end.is_ours() and self._woken.is_ours()):
            return  # the recording lasts as long as the process
        self._gone.acquire(blocking=False)
        try:
            _thread.start_new_thread(self._wait, ())
        except RuntimeError:  # no thread can be started: the recording lasts as long as the process
            self._gone.release()

    def pause(self) -> None:
        """End the thread and wait for it, which takes microseconds."""
        with self._numbers:
            if not (self._wake.is_ours() and self._woken.is_ours()):
                return  # closed by our thread at its end, or by the program: then the thread stays as it is
            os.write(self._wake.number, b"x")
        if self._gone.acquire(timeout=1):
            self._gone.release()
        with self._numbers, contextlib.suppress(BlockingIOError):
            # Not ours if the thread saw the end of the profile before it woke.
            if self._woken.is_ours():
                os.read(self._woken.number, 16)

    def close(self) -> None:
        """Close the descriptors: on the thread at its end, or in a forked child, where the thread does not exist."""
        # A limit, because a child inherits the lock as it is when pause() waits in vain for the thread.
        held = self._numbers.acquire(timeout=1)
        try:
            for descriptor in (self._end, self._woken, self._wake):
                descriptor.close()
        finally:
            if held:
                self._numbers.release()

    def _wait(self) -> None:
        try:
            signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
            poll = select.poll()
            poll.register(self._end.number, _HANGS_UP)
            poll.register(self._woken.number, select.POLLIN)
            while True:
                ready = dict(poll.poll(None if self._meanwhile is None else _PERIOD_MS))
                if ready or self._meanwhile is None:
                    break
                self._meanwhile()
            hung_up = ready.get(self._end.number, 0) & (select.POLLHUP | select.POLLIN)
            if hung_up and self._end.is_ours():
                self._ended()
                self.close()
        finally:
            self._gone.release()
