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
# ended. A process is forked by the root or by another child, one in three runs a new program, and some are
# killed, by the root, at a random time: when they start, while they record, while they fork. The others go
# on until five were killed and three have recorded, however long that takes on a busy machine. The last
# word of the file tells them to end; the root waits for all, also for children of killed children.
PROGRAM = """
import ctypes, mmap, random
rng = random.Random({seed})
path = sys.argv[1] + ".counts"
WORDS = (1 << 16) + 1
with open(path, "wb") as file:
    file.truncate(8 * WORDS)
WORK = '''
import mmap, os, sys, time
import fastprof
from fastprof import record_function

def words_of(path):
    with open(path, "r+b") as file:
        return memoryview(mmap.mmap(file.fileno(), 0)).cast("Q")

def work(path):
    counts = words_of(path)
    own = os.getpid() % (1 << 16)
    while not counts[-1]:
        for _ in range(50):
            with record_function("counted"):
                pass
            counts[own] += 1
        time.sleep(0.002)
'''
exec(WORK)

def child(depth):
    pid = os.fork()
    if pid != 0:
        return pid
    try:
        for _ in range(depth):
            child(depth - 1)
        if depth == 0 and os.getpid() % 3 == 0:
            code = WORK + "work(sys.argv[1])"
            os.execv(sys.executable, [sys.executable, "-c", code, path])
        work(path)
    finally:
        os._exit(0)

PR_SET_CHILD_SUBREAPER = 36
assert ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0
words = words_of(path)
prof = fastprof.profile(follow_children=True)
prof.start()
for depth in (0, 1, 1, 2):
    child(depth)
def descendants(pid):
    try:
        with open(f"/proc/{{pid}}/task/{{pid}}/children") as file:
            found = [int(word) for word in file.read().split()]
    except OSError:
        return []
    return found + [below for one in found for below in descendants(one)]
def runs(pid):
    with open(f"/proc/{{pid}}/stat") as file:
        return file.read().rpartition(")")[2].split()[0] != "Z"
def reap():
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        pass
killed = []
give_up = time.monotonic() + 60
while time.monotonic() < give_up:
    if len(killed) == 5 and sum(map(bool, words)) >= 3:
        break
    time.sleep(rng.random() * 0.15)
    reap()
    alive = [pid for pid in descendants(os.getpid()) if runs(pid)]
    if len(alive) < 4:
        child(1)
    elif len(killed) < 5 and rng.random() < 0.7:
        chosen = rng.choice(alive)
        os.kill(chosen, signal.SIGKILL)  # it exists: only the root waits for it
        killed.append(chosen)
words[-1] = 1
while True:
    try:
        os.wait()
    except ChildProcessError:
        break
prof.stop()
counts = {{number: word for number, word in enumerate(words[:-1]) if word}}
report(prof, counts=counts, killed=killed)
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
