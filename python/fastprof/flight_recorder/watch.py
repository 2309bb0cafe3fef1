# SPDX-License-Identifier: Apache-2.0
"""Watch: a thread of this process that answers requests on a socket and looks at triggers from time to time."""

from __future__ import annotations

import _thread
import contextlib
import os
import select
import socket
from collections.abc import Callable

from fastprof import _core
from fastprof.record.own_descriptor import OwnDescriptor

__all__ = ["Watch"]


class Watch:
    """The thread. It ends before this process forks and begins again afterwards, because Python warns of forks in
    processes with several threads; begin() and pause() are called by one thread at a time.

    path: of the socket; None: there is none. answer: called with each connection, on a thread of its own. look: called
    every period_s; None: never.
    """

    def __init__(
        self,
        path: str | None,
        answer: Callable[[socket.socket], None],
        look: Callable[[], None],
        period_s: float | None,
    ) -> None:
        self._path, self._answer, self._look, self._period_s = path, answer, look, period_s
        self._listener: socket.socket | None = None
        self._own: OwnDescriptor | None = None  # the listener's, unless the program closed it
        self._wake: tuple[OwnDescriptor, OwnDescriptor] | None = None  # ends of a pipe
        self._gone = _thread.allocate_lock()

    def open(self) -> None:
        """Listen on the socket, and begin. Raises OSError if the socket cannot be made."""
        if self._path is not None:
            listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            new = os.path.splitext(self._path)[0] + ".new"  # no longer: paths of sockets are short
            with contextlib.suppress(OSError):
                os.unlink(new)
            listener.bind(new)
            os.chmod(new, 0o600)
            listener.listen(16)
            # Who finds the socket can connect. Replaces that of a program that this process executed before.
            os.rename(new, self._path)
            listener.setblocking(False)
            self._listener, self._own = listener, OwnDescriptor(listener.fileno())
        self.begin()

    def begin(self) -> None:
        """Start the thread, which threading.enumerate() does not list."""
        if self._wake is not None or (self._listener is None and self._period_s is None):
            return
        reader, writer = os.pipe()
        self._wake = OwnDescriptor(reader), OwnDescriptor(writer)
        self._gone = _thread.allocate_lock()
        self._gone.acquire()
        try:
            _thread.start_new_thread(self._run, (reader, self._gone))
        except RuntimeError:  # no thread can be started
            self._close_pipe()

    def pause(self) -> None:
        """End the thread and wait for it: microseconds, unless it is writing a dump."""
        if self._wake is None:
            return
        if self._wake[1].is_ours() and self._wake[0].is_ours():
            with contextlib.suppress(OSError):
                os.write(self._wake[1].number, b"x")
            self._gone.acquire(timeout=10)
        self._close_pipe()

    def close(self, in_child: bool = False) -> None:
        """End the thread, close the socket and remove it. in_child: of a fork, where there is no thread."""
        if in_child:
            self._close_pipe()
        else:
            self.pause()
        if self._listener is not None:
            if self._own is not None and self._own.is_ours():
                self._listener.close()
            else:
                self._listener.detach()
            self._listener = None
            if not in_child and self._path is not None:
                with contextlib.suppress(OSError):
                    os.unlink(self._path)

    def _close_pipe(self) -> None:
        if self._wake is not None:
            for descriptor in self._wake:
                descriptor.close()
            self._wake = None

    def _run(self, wake: int, gone: _thread.LockType) -> None:
        _core.hide_calls_of_thread()
        try:
            poll = select.poll()
            poll.register(wake, select.POLLIN)
            listener = self._listener
            if listener is not None and self._own is not None and self._own.is_ours():
                poll.register(listener.fileno(), select.POLLIN)
            timeout_ms = None if self._period_s is None else self._period_s * 1000
            while True:
                ready = {descriptor for descriptor, _ in poll.poll(timeout_ms)}
                if wake in ready:
                    return
                if self._period_s is not None:
                    with contextlib.suppress(Exception):  # a fault here must not end the watch
                        self._look()
                if ready and listener is not None:
                    if self._own is None or not self._own.is_ours():
                        return  # the program closed all descriptors: the number is another file's
                    with contextlib.suppress(OSError):
                        connection, _ = listener.accept()
                        _thread.start_new_thread(self._serve, (connection,))
        finally:
            gone.release()

    def _serve(self, connection: socket.socket) -> None:
        _core.hide_calls_of_thread()
        with connection, contextlib.suppress(OSError):
            self._answer(connection)
