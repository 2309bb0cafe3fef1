# SPDX-License-Identifier: Apache-2.0
"""A thread that waits in `with lock:` is shown as waiting, at that line, once."""

from __future__ import annotations

import sys
import threading
import time
from collections import Counter
from typing import Any

import pytest
from waiting_threads import until_threads_wait

import fastprof
from fastprof.model.thread_waits import ThreadWaits

LOCK, RLOCK = (
    f"<built-in method __enter__ of _thread.{name} object>" for name in ("lock", "RLock")
)


def entries(table: Any) -> Counter[str]:
    names = Counter(table.name(row) for row in range(len(table)))
    return Counter({name: count for name, count in names.items() if name in (LOCK, RLOCK)})


@pytest.mark.parametrize("kind", [threading.Lock, threading.RLock])
def test_a_wait_in_a_with_statement_is_a_wait(kind: Any) -> None:
    lock, ready = kind(), threading.Event()
    lines = []

    def waits() -> None:
        lines.append(sys._getframe().f_lineno + 2)
        ready.set()
        with lock:
            pass

    with fastprof.profile(python_calls=True) as prof:
        thread = threading.Thread(target=waits)
        with lock:
            thread.start()
            ready.wait()
            until_threads_wait("with lock", thread.ident)
            time.sleep(0.3)
        thread.join()
    table = prof.event_table
    rows = [row for row in range(len(table)) if table.name(row) in (LOCK, RLOCK)]
    row = max(rows, key=lambda each: int(table.duration_ns[each]))
    assert table.duration_ns[row] > 100_000_000
    assert [int(table.column("call_line")[row])] == lines
    waited = ThreadWaits(table)
    assert waited.outer[row] and "a lock" in waited.text()


def test_each_entry_is_recorded_once() -> None:
    lock, reentrant, condition = threading.Lock(), threading.RLock(), threading.Condition()
    with fastprof.profile(python_calls=True) as prof:
        with lock:
            pass
        with reentrant, reentrant:
            pass
        with condition:  # calls __enter__ of its own lock
            pass
        lock.__enter__()
        lock.__exit__(None, None, None)
    assert entries(prof.event_table) == {LOCK: 2, RLOCK: 3}
    with fastprof.profile() as prof, lock:  # without calls
        pass
    assert not entries(prof.event_table)
