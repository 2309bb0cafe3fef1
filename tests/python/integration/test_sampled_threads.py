# SPDX-License-Identifier: Apache-2.0
"""What may happen to a sampled thread: threads of C and greenlets, short lives, forks, no frames; fastprof's own."""

import ctypes
import sys
import threading
import time
from types import SimpleNamespace

import numpy as np
import pytest
from processes import python, thread_names
from sampled_programs import sampled

import fastprof
from fastprof.decode.sample_rows import with_samples
from fastprof.model.sampled_stacks import SampledStacks


@pytest.mark.skipif(sys.platform != "linux", reason="the kernel's names of threads")
def test_a_thread_of_c_that_calls_python_twice():
    """Each call has a thread state of its own, and the name is the kernel's."""
    libc, called = ctypes.CDLL(None), []
    libc.pthread_self.restype = ctypes.c_void_p

    def call(_):
        libc.pthread_setname_np(ctypes.c_void_p(libc.pthread_self()), b"of C")
        with fastprof.record_function("call"):
            time.sleep(0.3)
        called or libc.pthread_setspecific(
            key, ctypes.c_void_p(1)
        )  # whose destructor is the second call
        called.append(threading.get_native_id())

    c_call = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p)(call)
    key, thread = ctypes.c_uint(), ctypes.c_void_p()
    libc.pthread_key_create(ctypes.byref(key), c_call)

    def run():
        libc.pthread_create(ctypes.byref(thread), None, c_call, None)
        libc.pthread_join(thread, None)

    names = [share.name for share in sampled(run).samples().shares("thread")]
    assert len(called) == 2 and "of C" in names and f"thread {called[0]}" not in names


def test_the_main_thread_beside_greenlets_that_stand_for_threads(monkeypatch):
    own, threads = threading.get_native_id(), threading.enumerate
    greenlet = SimpleNamespace(native_id=own, ident=1, name="greenlet")
    monkeypatch.setattr(threading, "enumerate", lambda: [*threads(), greenlet])
    samples = sampled(lambda: time.sleep(0.3)).samples()
    assert "MainThread" in {share.name for share in samples.shares("thread")}


def test_threads_that_are_born_and_die_deep_recursion_and_freed_code():
    def deep(n):
        return deep(n - 1) if n else time.sleep(0.002)

    def run():
        limit = sys.getrecursionlimit()
        sys.setrecursionlimit(10_000)
        try:
            deep(3000)
        finally:
            sys.setrecursionlimit(limit)
        end = time.monotonic() + 0.5
        number = 0
        while time.monotonic() < end:
            scope = {}
            exec(f"def made_{number}():\n    return sum(range(2000))\nmade_{number}()", scope)
            thread = threading.Thread(target=sum, args=(range(2000),))
            thread.start()
            thread.join()
            number += 1

    samples = sampled(run, 5000).samples()
    names = {s.name for s in samples.shares()}
    made = {n for n in names if n.startswith("made_")}
    assert all(n.removeprefix("made_").isdigit() for n in made)
    assert samples.stacks.counts["ticks"] > 0


def test_forked_child_ends_without_the_sampler():
    code = """if True:
        import contextlib, glob, os, fastprof, time

        def untilsampled():
            waits = 0  # of the sampler's thread: it waits after each sample
            while waits < 5:
                time.sleep(0.01)
                for task in glob.glob("/proc/self/task/*"):
                    with contextlib.suppress(OSError):  # the thread has ended
                        if "fastprof-sample" in open(task + "/comm").read():
                            facts = dict(line.split(":", 1) for line in open(task + "/status"))
                            waits = int(facts["voluntary_ctxt_switches"])

        with fastprof.profile(sample_hz=2000) as prof:
            untilsampled()
            pid = os.fork()
            if pid == 0:
                with fastprof.profile(sample_hz=2000) as own: untilsampled()
                assert len(own.samples()) > 0
                os._exit(7)
            assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 7
        print(len(prof.samples()) > 0)
    """
    done = python("-c", code)
    assert done.stdout == "True\n", done.stderr


def test_without_the_option_nothing_samples():
    ending = thread_names()  # of an earlier test: joined threads stay in /proc a little longer
    with fastprof.profile() as prof:
        names = thread_names() - ending
    assert not any("fastprof-sample" in name for name in names)
    with pytest.raises(fastprof.errors.StateError, match="sample_hz=1000"):
        prof.samples()
    with pytest.raises(ValueError, match="sample_hz"):
        fastprof.profile(sample_hz=0)


def test_fastprofs_own_threads_are_notsampled():
    """Those of a recorder, and of profiles; a thread whose function fastprof wraps is the program's."""
    program = """
import _thread, threading, time
import fastprof
def spin():
    until = time.thread_time() + 0.3
    while time.thread_time() < until:
        pass
def work(done):
    spin()
    done.release()
fastprof.flight_recorder.start()
done = _thread.allocate_lock()
for _ in range(3):
    with fastprof.profile(sample_hz=500, sample_tasks=True) as prof:
        done.acquire()
        _thread.start_new_thread(fastprof.propagate(work), (done,))
        spin()
        with done:
            pass
    samples = prof.samples()
    print(len(samples.stacks.threads), sum(share.name.endswith("work") for share in samples.shares()), prof.missing)
"""
    done = python("-c", program, check=True)
    assert done.stdout == "2 1 {}\n" * 3 or "stacks are not sampled" in done.stdout, done.stdout


def test_a_thread_without_python_frames_has_no_rows():
    columns = {"first_ns": 10, "last_ns": 10, "thread": 0, "node": -1, "count": 1, "state": 2}
    stacks = SampledStacks(
        hz=1000,
        **{name: np.array([value]) for name, value in columns.items()},
        **{name: np.zeros(0, np.int32) for name in ("parent", "code", "line")},
        codes=(),
        threads=((7, "worker"),),
        counts={},
    )
    table = fastprof.EventTable({"start_ns": [], "end_ns": [], "site": [], "parent": []}, sites=())
    assert len(with_samples(table, stacks)) == 0


def test_a_thread_that_has_not_begun_is_left_out():
    """It has the id of its creator, and no frame. Another thread without frames stays."""
    run = {name: np.array([1, 2, 3]) for name in ("first_ns", "last_ns", "count", "state")}
    stacks = SampledStacks(
        hz=1000,
        **run,
        thread=np.array([0, 1, 2]),
        node=np.array([0, -1, -1]),
        **{name: np.array([value]) for name, value in (("parent", -1), ("code", 0), ("line", 1))},
        codes=(("main", "a.py", 1),),
        threads=((5, "MainThread"), (5, "MainThread"), (7, "worker")),
        counts={},
    )
    left = stacks.without_own_threads(lambda file: file == "own.py")
    assert left.threads == ((5, "MainThread"), (7, "worker"))
    assert left.first_ns.tolist() == [1, 3]
    assert not stacks.without_own_threads(lambda file: file == "a.py").thread.tolist()[1:]
