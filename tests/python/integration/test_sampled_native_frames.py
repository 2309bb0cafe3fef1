# SPDX-License-Identifier: Apache-2.0
"""Native frames of samples: below the Python line that calls them, in all outputs, without a change for the program."""

import ctypes
import os
import signal
import sys
import threading
import time
import zlib

import pytest
from processes import python

import fastprof

DATA = os.urandom(200_000)

pytestmark = pytest.mark.skipif(
    sys.platform != "linux", reason="native stacks are sampled on Linux"
)


def squeeze():
    return zlib.compress(DATA, 9)  # without the GIL


def spin(seconds):
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        squeeze()


def sampled(function, *arguments):
    with fastprof.profile(sample_hz=1000, native=True) as prof:
        function(*arguments)
    if "sample_hz" in prof.missing:
        pytest.skip(prof.missing["sample_hz"])
    return prof


def stacks(prof):
    """Yield (names, modules, count), innermost first."""
    found = prof.samples().stacks
    for node, count in zip(found.node.tolist(), found.count.tolist(), strict=True):
        codes = [found.codes[int(found.code[n])] for n in found.path(node)]
        yield (
            [c[0].rsplit(".", 1)[-1] for c in codes],
            [os.path.basename(c[1]) for c in codes],
            count,
        )


def is_native(module):
    return ".so" in module


def test_functions_of_libraries_lie_below_the_line_that_calls_them():
    prof = sampled(spin, 0.5)
    with_zlib = 0
    for names, modules, count in stacks(prof):
        if "squeeze" not in names or not is_native(modules[0]):
            continue
        below = modules[: names.index("squeeze")]
        assert all(map(is_native, below)), (names, modules)
        with_zlib += count * any("libz" in m or "zlib" in m for m in below)
        assert names[names.index("squeeze") + 1] == "spin"
    # Nearly all of the 500 ms; a busy machine misses ticks.
    assert with_zlib > 20
    assert prof.samples().stacks.counts["native_stacks"] >= with_zlib
    total = sum(
        s.total for s in prof.samples().shares("module") if "libz" in s.file or "zlib" in s.file
    )
    assert total >= with_zlib


def test_outputs_show_native_functions(tmp_path):
    prof = sampled(spin, 0.3)
    for name in ("a.json", "a.pftrace", "a.fastprof", "a.speedscope.json", "a.pprof", "a.folded"):
        prof.export(tmp_path / name)
        names = fastprof.load(tmp_path / name).names
        assert any("libz" in n or "zlib" in n for n in names), name
    assert "(zlib" in prof.samples().table(row_limit=-1) or "(libz" in prof.samples().table(
        row_limit=-1
    )


def test_callbacks_of_compiled_code_lie_above_it():
    """qsort of the C library calls a Python function, which lies below qsort, and qsort below its caller."""
    libc = ctypes.CDLL(None)
    kind = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)

    def compare(a, b):
        return sum(range(300)) * 0 + (a > b) - (a < b)

    def sort():
        end = time.thread_time() + 0.5
        while time.thread_time() < end:
            numbers = (ctypes.c_int * 500)(*range(500))
            libc.qsort(numbers, 500, 4, kind(compare))

    between = inside = 0
    for names, modules, count in stacks(sampled(sort)):
        if "compare" in names:
            assert names.index("compare") < names.index("sort")
            inside += count
            between += count * any(
                map(is_native, modules[names.index("compare") : names.index("sort")])
            )
    assert inside > 10
    if sys.version_info < (3, 14):
        assert between > 0


def test_the_programs_handler_of_the_signal_stays():
    received = []
    former = signal.signal(signal.SIGURG, lambda *_: received.append(1))
    try:
        sampled(spin, 0.1)
        assert not received
        os.kill(os.getpid(), signal.SIGURG)
        assert received == [1]
    finally:
        signal.signal(signal.SIGURG, former)


def test_system_calls_of_waiting_threads_are_not_interrupted():
    libc = ctypes.CDLL(None, use_errno=True)

    def wait(results):
        for _ in range(20):
            results.append(libc.usleep(10_000))

    results: list[int] = []
    thread = threading.Thread(target=wait, args=(results,))

    def run():
        thread.start()
        spin(0.1)
        thread.join()

    sampled(run)
    assert len(results) == 20


@pytest.mark.parametrize("calls", ["", ", python_calls=True"])
def test_children_threads_and_interrupts(calls):
    code = f"""if True:
        import fastprof, os, subprocess, sys, threading, zlib
        data = os.urandom(100000)
        def work():
            for _ in range(10): zlib.compress(data, 9)
        with fastprof.profile(sample_hz=2000, native=True{calls}) as prof:
            threads = [threading.Thread(target=work) for _ in range(4)]
            for thread in threads: thread.start()
            for _ in range(5):
                pid = os.fork()
                if pid == 0:
                    with fastprof.profile(sample_hz=2000, native=True) as own:
                        for _ in range(5): work()  # 0.2 s, within which a busy machine runs the sampler
                    os._exit(7 if len(own.samples()) else 8)
                assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 7
                assert subprocess.run([sys.executable, "-c", "print(5)"], capture_output=True).stdout == b"5\\n"
            for thread in threads: thread.join()
        print(len(prof.samples()) > 0, dict(prof.missing))
    """
    done = python("-c", code)
    assert done.stdout.startswith("True {"), done.stderr


def test_children_that_fork_while_a_stack_is_read_can_load_libraries():
    code = """if True:
        import ctypes, fastprof, os, zlib
        data = os.urandom(20000)
        with fastprof.profile(sample_hz=5000, native=True):
            for _ in range(150):
                zlib.compress(data)
                pid = os.fork()
                if pid == 0:
                    ctypes.CDLL("libm.so.6")  # takes the loader's lock
                    os._exit(7)
                assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 7
        print("ok")
    """
    done = python("-c", code)
    assert done.stdout == "ok\n", done.stderr
