# SPDX-License-Identifier: Apache-2.0
"""Calls on threads that C code starts, and frames of threads that make no call."""

from __future__ import annotations

import ctypes
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from compilers import need, run
from processes import resident_kilobytes
from waiting_threads import until_threads_wait

import fastprof
from fastprof.model.columns import EventFlag

RunOnThread = Callable[[Callable[[], Any]], None]


def fib(n: int) -> int:
    return n if n < 2 else fib(n - 1) + fib(n - 2)


@pytest.fixture(scope="module")
def run_on_c_thread(tmp_path_factory: pytest.TempPathFactory) -> RunOnThread:
    """Calls a function on a thread that C code starts, while this one waits in C without the GIL."""
    libc = ctypes.CDLL(None)
    start = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p)
    libc.pthread_create.argtypes = [ctypes.c_void_p, ctypes.c_void_p, start, ctypes.c_void_p]
    libc.pthread_join.argtypes = [ctypes.c_ulong, ctypes.c_void_p]

    def run(function: Callable[[], Any]) -> None:
        @start
        def body(_: object) -> None:
            function()

        thread = ctypes.c_ulong()
        assert libc.pthread_create(ctypes.byref(thread), None, body, None) == 0
        assert libc.pthread_join(thread, None) == 0

    return run


def calls_by_thread(prof: fastprof.profile, function: str) -> dict[int, int]:
    """Thread id to the number of calls of a function that began in the profile."""
    table = prof.event_table
    rows = zip(table.column("track"), table.column("site"), table.column("flags"), strict=True)
    return Counter(
        table.tracks[track].tid
        for track, site, flags in rows
        if table.sites.names[int(site)].endswith(": " + function)
        and not flags & EventFlag.ENCLOSING
    )


def test_threads_that_c_code_starts(run_on_c_thread: RunOnThread) -> None:
    tids: list[int] = []

    def work() -> None:
        tids.append(threading.get_native_id())
        fib(5)

    with fastprof.profile(python_calls=True) as prof:
        for _ in range(5):
            run_on_c_thread(work)
    # The kernel may give a thread the id of one that has ended.
    assert calls_by_thread(prof, "work") == Counter(tids)
    assert calls_by_thread(prof, "fib") == {tid: 15 * n for tid, n in Counter(tids).items()}
    with fastprof.profile(python_calls=True) as prof:
        run_on_c_thread(work)
    assert calls_by_thread(prof, "fib") == {tids[-1]: 15}
    run_on_c_thread(work)  # nothing is left of the tracing
    with fastprof.profile() as without:
        run_on_c_thread(lambda: (fib(3), tids.append(sys.getprofile())))  # type: ignore[arg-type]
    assert tids[-1] is None
    assert not [e for e in without.events() if e.is_python_function]


def test_many_c_threads_keep_memory_flat(run_on_c_thread: RunOnThread) -> None:
    def rounds(n: int) -> None:
        for _ in range(n):
            run_on_c_thread(lambda: fib(1))

    with fastprof.profile(python_calls=fastprof.CallFilter(modules=["json"], c_calls=False)):
        rounds(500)
        before = resident_kilobytes()
        rounds(3000)
        assert resident_kilobytes() - before < 3000


_CALLS_AGAIN_AND_AGAIN = """
#include <pthread.h>
struct Work { void (*call)(void); int times; };
static void* body(void* given) {
  for (int i = 0; i < ((struct Work*)given)->times; ++i) ((struct Work*)given)->call();
  return 0;
}
void call_on_thread(void (*call)(void), int times) {
  struct Work work = {call, times};
  pthread_t thread;
  pthread_create(&thread, 0, body, &work);
  pthread_join(thread, 0);
}
"""


@pytest.mark.compilers
def test_a_c_thread_that_has_a_new_thread_state_for_each_call(tmp_path: Path) -> None:
    source, library = tmp_path / "calls.c", tmp_path / "calls.so"
    source.write_text(_CALLS_AGAIN_AND_AGAIN)
    run([need("gcc"), "-shared", "-fPIC", "-pthread", source, "-o", library])
    over = threading.Event()

    def step() -> None:
        fib(1)
        time.sleep(0.001)  # others run meanwhile
        fib(1)

    def others() -> None:
        while not over.is_set():
            fib(1)
            time.sleep(0)

    with fastprof.profile(python_calls=True) as prof:
        thread = threading.Thread(target=others)
        thread.start()
        ctypes.CDLL(str(library)).call_on_thread(ctypes.CFUNCTYPE(None)(step), 100)
        over.set()
        thread.join()
    table = prof.event_table
    names = [table.sites.names[int(site)] for site in table.column("site")]
    steps = [row for row, name in enumerate(names) if name.endswith(": step")]
    assert len(steps) == 100
    assert all(table.column("flags")[row] & EventFlag.FINISHED for row in steps)


def test_a_thread_that_makes_no_call_shows_its_frames() -> None:
    go = threading.Event()

    def waits_all_along() -> None:
        go.wait()

    threads = [threading.Thread(target=waits_all_along, name=f"waiter {i}") for i in range(2)]
    for thread in threads:
        thread.start()
    until_threads_wait("waiter.acquire()", *(thread.ident for thread in threads))
    try:
        for _ in range(2):  # the second time, the threads have tracks
            with fastprof.profile(python_calls=True) as prof:
                fib(1)
            with fastprof.profile(python_calls=True, all_threads=False) as own:
                fib(1)
            table = prof.event_table
            track_of, site, parent, start, end = (
                table.column(name) for name in ("track", "site", "parent", "start_ns", "end_ns")
            )
            (call,) = [
                i for i in range(len(table)) if table.sites.names[int(site[i])].endswith(": fib")
            ]
            for thread in threads:
                (track,) = [t for t in table.tracks if t.name == thread.name]
                assert track.tid == thread.native_id
                rows = [row for row in range(len(table)) if table.tracks[track_of[row]] == track]
                names = [table.sites.names[int(site[row])].split(": ")[-1] for row in rows]
                assert names[:3] == ["_bootstrap", "_bootstrap_inner", "run"]
                assert names[3:] == ["waits_all_along", "wait", "wait"]
                assert [int(parent[row]) for row in rows] == [-1, *rows[:-1]]
                # They last from before the first call to the stop.
                assert all(start[row] <= start[call] <= end[call] <= end[row] for row in rows)
            assert not [t for t in own.event_table.tracks if t.name.startswith("waiter")]
            found = {f.function: f.calls for f in prof.python_calls().functions}
            assert found["fib"] == 1 and not found.get("waits_all_along")
    finally:
        go.set()
        for thread in threads:
            thread.join()


def test_calls_around_one_in_progress_end_with_it() -> None:
    begun, go = threading.Event(), threading.Event()

    def around() -> None:
        begun.wait()
        in_progress()

    def in_progress() -> None:
        inside.set()
        go.wait()

    inside = threading.Event()
    thread = threading.Thread(target=around)
    thread.start()
    until_threads_wait("waiter.acquire()", thread.ident)
    try:
        with fastprof.profile(python_calls=True) as prof:
            begun.set()
            inside.wait()
            until_threads_wait("waiter.acquire()", thread.ident)
    finally:
        go.set()
        thread.join()
    table = prof.event_table
    names = [table.sites.names[int(site)].split(": ")[-1] for site in table.column("site")]
    ends = [int(table.column("end_ns")[names.index(name)]) for name in ("around", "in_progress")]
    assert ends[0] == ends[1]
