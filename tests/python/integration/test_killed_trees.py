# SPDX-License-Identifier: Apache-2.0
"""Trees of processes, of which some are killed at random times: every range that had ended is there, once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from followed_programs import followed, left_over, ranges, with_shards


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    yield from with_shards(tmp_path)


# Each process counts what it has recorded in a word of its own of a shared file, after the range has
# ended. A process is forked by the root or by another child, one in three runs a new program, and most
# are killed, by the root, at a random time: when they start, while they record, while they fork.
PROGRAM = """
import mmap, random, threading
rng = random.Random({seed})
path = sys.argv[1] + ".counts"
with open(path, "wb") as file:
    file.truncate(8 << 16)
WORK = '''
import mmap, os, sys, time
import fastprof
from fastprof import record_function

def work(path, deadline):
    with open(path, "r+b") as file:
        counts = memoryview(mmap.mmap(file.fileno(), 0)).cast("Q")
    own = os.getpid() % (1 << 16)
    while time.monotonic() < deadline:
        for _ in range(50):
            with record_function("counted"):
                pass
            counts[own] += 1
        time.sleep(0.002)
'''
exec(WORK)

def child(depth, deadline):
    pid = os.fork()
    if pid != 0:
        return pid
    try:
        for _ in range(depth):
            child(depth - 1, deadline)
        if depth == 0 and os.getpid() % 3 == 0:
            code = WORK + "work(sys.argv[1], float(sys.argv[2]))"
            os.execv(sys.executable, [sys.executable, "-c", code, path, str(deadline)])
        work(path, deadline)
    finally:
        os._exit(0)

prof = fastprof.profile(follow_children=True)
prof.start()
deadline = time.monotonic() + 1.5
roots = [child(depth, deadline) for depth in (0, 1, 1, 2)]
end = time.monotonic() + 1.2
def descendants(pid):
    try:
        with open(f"/proc/{{pid}}/task/{{pid}}/children") as file:
            found = [int(word) for word in file.read().split()]
    except OSError:
        return []
    return found + [below for one in found for below in descendants(one)]
killed = []
while time.monotonic() < end:
    time.sleep(rng.random() * 0.15)
    alive = descendants(os.getpid())
    if alive and rng.random() < 0.7:
        chosen = rng.choice(alive)
        try:
            os.kill(chosen, signal.SIGKILL)
            killed.append(chosen)
        except ProcessLookupError:
            pass
while True:  # children of killed children are nobody's: they end by themselves
    try:
        os.wait()
    except ChildProcessError:
        break
time.sleep(max(0, deadline - time.monotonic()) + 0.5)
prof.stop()
import struct
with open(path, "rb") as file:
    words = struct.unpack(f"{{1 << 16}}Q", file.read())
report(prof, counts={{number: word for number, word in enumerate(words) if word}}, killed=killed)
"""


@pytest.mark.parametrize("seed", range(4))
def test_random_kills_lose_nothing_that_had_ended(folder: Path, seed: int) -> None:
    result = followed(folder, PROGRAM.format(seed=seed).replace("\n", "\n        "))
    ended = Counter(event[1] % (1 << 16) for event in ranges(result, "counted") if event[4])
    opened = Counter(event[1] % (1 << 16) for event in ranges(result, "counted") if not event[4])
    counts = {int(pid): count for pid, count in result["counts"].items()}
    assert len(counts) >= 3 and result["killed"]
    assert ended.keys() <= counts.keys() | set(opened) | {p % (1 << 16) for p in result["killed"]}
    for pid, count in counts.items():
        # A kill may fall between the end of a range and its count, or into a range.
        assert count <= ended[pid] <= count + 1, (pid, count, ended[pid], result["missing"])
        assert opened[pid] <= 1
    assert not left_over(folder)
