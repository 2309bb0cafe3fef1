# SPDX-License-Identifier: Apache-2.0
"""Names of calls that only wait, against calls that are made and recorded here."""

from __future__ import annotations

import queue
import select
import socket
import threading
import time
from collections.abc import Callable

import pytest

import fastprof
from fastprof.model.blocking_calls import is_blocking_call


def _wait_for_condition() -> None:
    condition = threading.Condition()
    with condition:
        condition.wait(0.01)


def _receive() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        theirs.send(b"x")
        ours.recv(1)


def _get() -> None:
    with pytest.raises(queue.Empty):
        queue.SimpleQueue[int]().get(timeout=0.01)


@pytest.mark.parametrize(
    ("work", "expected"),
    [
        (lambda: time.sleep(0.01), "<built-in function sleep>"),
        (lambda: select.select([], [], [], 0.01), "<built-in function select>"),
        (lambda: select.poll().poll(1), "<built-in method poll of select.poll object>"),
        (_wait_for_condition, "<built-in method acquire of _thread.lock object>"),
        (_receive, "<built-in method recv of socket object>"),
        (_get, "<built-in method get of _queue.SimpleQueue object>"),
    ],
)
def test_calls_that_wait(work: Callable[[], object], expected: str) -> None:
    with fastprof.profile(python_calls=True, all_threads=False) as prof:
        work()
    assert expected in [name for name in prof.event_table.names if is_blocking_call(name)]


@pytest.mark.parametrize(
    "name",
    [
        "<built-in method acquire of _thread.lock object at 0x7f0123abcdef>",
        "<built-in method __enter__ of _thread.RLock object>",
        "<built-in method acquire of _multiprocessing.SemLock object>",
        "<built-in method posix.waitpid>",
    ],
)
def test_names_of_waits(name: str) -> None:
    assert is_blocking_call(name)
