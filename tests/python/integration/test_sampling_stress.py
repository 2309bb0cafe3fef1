# SPDX-License-Identifier: Apache-2.0
"""Sampling at its highest rate while all that is read without the GIL changes: no crash, and no stack that cannot be.

A second of sampling each; FASTPROF_STRESS multiplies it.
"""

from __future__ import annotations

import inspect
import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from typing import Any

import pytest

from fastprof.attach.outside import sample_from_outside
from fastprof.model.sampled_stacks import SampledStacks

STRESS = float(os.environ.get("FASTPROF_STRESS", "1"))
HZ = 20_000
# The sampler may be interrupted for the time of some calls while it copies a stack: 10^-6 were measured.
ALLOWED_WRONG = 1e-4
# Functions of the program, with those that call them: each stack must have them in this order.
CALLERS = {
    "first": {"turn", "hooks"}, "second": {"first"}, "third": {"second"}, "recursion": {"turn"},
    "deep": {"deep", "recursion"}, "consume": {"turn", "hooks"}, "outer": {"consume", "switch"}, "inner": {"outer"},
    "leaf": {"inner", "third", "deep", "made"}, "made": {"<module>"}, "switch": {"", "greenlets"},
}  # fmt: skip
PROGRAM = """
import json, os, signal, sys, threading, time
sys.setswitchinterval(1e-4)
sys.setrecursionlimit(5000)
try:
    import _interpreters as interpreters
except ImportError:
    import _xxsubinterpreters as interpreters
run_in = getattr(interpreters, "run_string", None) or interpreters.exec

def leaf(): return sum(range(20))
def third(): return leaf()
def second(): return third()
def first(): return second()
def births():
    threads = [threading.Thread(target=turn, args=(first,)) for _ in range(4)]
    for each in threads: each.start()
    for each in threads: each.join()
def codes():
    for number in range(20):
        text = f"x_{number} = {time.monotonic_ns()}\\ndef made():\\n" + "    leaf()\\n" * (number + 1) + "made()"
        exec(compile(text, "<made>", "exec"), {"leaf": leaf})
def deep(n): return deep(n - 1) if n else leaf()
def recursion():
    for n in (1, 30, 900): deep(n)
def inner():
    for _ in range(30):
        yield leaf()
def outer():
    yield from inner()
def consume():
    for _ in outer(): pass
def switch():
    for _ in outer(): greenlet.getcurrent().parent.switch()
def greenlets():
    global greenlet
    import greenlet
    all_of_them = [greenlet.greenlet(switch) for _ in range(10)]
    while all_of_them:
        for each in all_of_them: each.switch()
        all_of_them = [each for each in all_of_them if not each.dead]
def subinterpreters():
    number = interpreters.create()
    try:
        run_in(number, "def f(n): return f(n - 1) if n else sum(range(2000))\\nfor i in range(20): f(i)")
    finally:
        interpreters.destroy(number)
def hooks():
    sys.setprofile(lambda *args: None)
    try:
        first()
        consume()
    finally:
        sys.setprofile(None)
def forks():
    pid = os.fork()
    if pid == 0:
        recursion()
        os._exit(0)
    if os.waitpid(pid, 0)[1]:
        os.kill(os.getpid(), signal.SIGABRT)
def turn(function): function()
def life(function):
    while not ends.is_set():
        turn(function)
        turns[function.__name__] += 1

chosen = [globals()[name] for name in sys.argv[3:]]
turns, ends = {each.__name__: 0 for each in chosen}, threading.Event()
signal.signal(signal.SIGALRM, lambda *args: turn(first))
signal.setitimer(signal.ITIMER_REAL, 0.002, 0.002)
threads = [threading.Thread(target=life, args=(each,)) for each in chosen]
threads += [threading.Thread(target=ends.wait) for _ in range(200)]
for each in threads: each.start()
def busy(seconds):
    until, before = time.monotonic() + seconds, dict(turns)
    while time.monotonic() < until or any(turns[each] == before[each] for each in turns):
        time.sleep(0.05)  # until each has had a turn, too
if sys.argv[1] == "outside":
    print("ready", flush=True)
    sys.stdin.readline()
else:
    import fastprof
    left_s = float(sys.argv[2])
    while left_s > 0:
        with fastprof.profile(sample_hz=20000) as prof: busy(min(left_s, 4))
        left_s -= 4
        stacks = prof.samples().stacks
        pairs = {}
        print(json.dumps([int(stacks.count.sum()), dict(stacks.counts), pairs_of(stacks)]), flush=True)
ends.set()
signal.setitimer(signal.ITIMER_REAL, 0)
for each in threads: each.join()
print(json.dumps(turns))
"""
ASAN_FORKS = "AddressSanitizer's allocator may be locked in a child of a process with threads"
# A child that is forked beside a subinterpreter may hang in CPython 3.11, without a sampler, too.
ACTIVITIES = {
    "subinterpreters": ("births", "codes", "recursion", "consume", "hooks", "subinterpreters"),
    "forks": ("births", "codes", "recursion", "consume", "hooks", "forks"),
}


def pairs_of(stacks: SampledStacks) -> list[tuple[str, str, str, int]]:
    """Return (function, file, caller, samples) of all frames; the caller of outermost ones is ""."""
    codes, parents = stacks.code.tolist(), stacks.parent.tolist()
    totals = [0] * len(codes)
    for node, count in zip(stacks.node.tolist(), stacks.count.tolist(), strict=True):
        totals[node] += count if node >= 0 else 0
    pairs: dict[tuple[str, str, str], int] = {}
    for node in reversed(range(len(codes))):  # a node follows its caller
        name, file, _ = stacks.codes[codes[node]]
        caller = ""
        if parents[node] >= 0:
            totals[parents[node]] += totals[node]
            caller = stacks.codes[codes[parents[node]]][0]
        pairs[name, file, caller] = pairs.get((name, file, caller), 0) + totals[node]
    return [(*pair, count) for pair, count in pairs.items()]


def check(pairs: Sequence[Sequence[Any]]) -> int:
    """Compare (function, file, caller, samples) with what the program has; return the samples with wrong callers."""
    own = ("<string>", "<made>")
    wrong = {
        (name, file, caller): count
        for name, file, caller, count in pairs
        if file in own and caller not in CALLERS.get(name, {caller})
    }
    print("wrong:", wrong)
    for _, file, _, _ in pairs:
        assert file in own or file.startswith("<frozen") or os.path.exists(file), file
    return sum(wrong.values())


def in_process(*activities: str) -> None:
    code = inspect.getsource(pairs_of).replace(": SampledStacks", "") + PROGRAM
    words = [sys.executable, "-c", code, "own", str(STRESS), *activities]
    done = subprocess.run(words, capture_output=True, text=True, timeout=600 + 10 * STRESS)
    assert done.returncode == 0, done.stderr[-9000:]
    *rounds, turns = map(json.loads, done.stdout.splitlines())
    counts: Counter[str] = Counter()
    for samples, found, pairs in rounds:
        counts.update({"samples": samples, **found})
        counts["wrong"] += check(pairs)
    print(dict(counts), turns)
    assert counts["samples"] > 0 and all(turns.values())
    assert counts["wrong"] <= ALLOWED_WRONG * counts["samples"] + 10


@pytest.mark.parametrize("name", ACTIVITIES)
def test_in_the_process(name: str) -> None:
    if name == "forks" and "asan" in os.environ.get("LD_PRELOAD", ""):
        pytest.skip(ASAN_FORKS)
    in_process(*ACTIVITIES[name])


@pytest.mark.integrations
def test_greenlets() -> None:
    pytest.importorskip("greenlet")
    in_process("greenlets", "births")


@pytest.mark.skipif(sys.platform != "linux", reason="needs Linux")
@pytest.mark.parametrize("name", ACTIVITIES)
def test_from_outside(name: str) -> None:
    if name == "forks" and "asan" in os.environ.get("LD_PRELOAD", ""):
        pytest.skip(ASAN_FORKS)
    words = [sys.executable, "-c", PROGRAM, "outside", "0", *ACTIVITIES[name]]
    counts: Counter[str] = Counter()
    with subprocess.Popen(
        words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as program:
        try:
            assert program.stdout is not None
            assert program.stdout.readline() == "ready\n"
            left_s = STRESS
            while left_s > 0 or not counts["samples"]:
                found = sample_from_outside(program.pid, HZ, max(1, min(left_s, 4))).stacks
                assert found is not None
                counts.update({"samples": int(found.count.sum()), **found.counts})
                counts["wrong"] += check(pairs_of(found))
                left_s -= 4
            said, _ = program.communicate("\n", timeout=600)
        finally:
            program.kill()
    print(dict(counts), said)
    assert program.returncode == 0
    assert counts["wrong"] <= ALLOWED_WRONG * counts["samples"] + 10
