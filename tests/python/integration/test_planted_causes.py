# SPDX-License-Identifier: Apache-2.0
"""explain --live finds the planted cause of a slow program first, and says nothing about healthy programs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from processes import python

# Name -> (words of the first finding, program).
PLANTED = {
    "retries": ("sleeping with_retries", """
import time
def fetch(attempt):
    if attempt < 4: raise OSError("busy")
def with_retries():
    for attempt in range(5):
        try: return fetch(attempt)
        except OSError: time.sleep(0.03)
with_retries()
"""),
    "a busy poll": ("wait_until_done polls in a loop", """
import threading
done = threading.Event()
threading.Timer(0.2, done.set).start()
def wait_until_done():
    while not done.is_set():
        pass
wait_until_done()
"""),
    "a slow property": ("total is called 3,000 times by report", """
class Order:
    def __init__(self): self.lines = list(range(400))
    @property
    def total(self): return sum(x * 2 for x in self.lines)
def report():
    order = Order()
    return [order.total for _ in range(3000)]
report()
"""),
    "a pattern that backtracks": ("regular expressions parse", """
import re
def parse(line): return re.match(r"(a+)+$", line)
parse("a" * 20 + "b")
"""),
    "a query a row": ("queries of a database row", """
import sqlite3
db = sqlite3.connect(":memory:")
db.execute("create table t (a integer, b text)")
db.executemany("insert into t values (?, ?)", [(i, "x" * 50) for i in range(1500)])
def row(i): return db.execute("select b from t where a = ?", (i,)).fetchone()
def load(): return [row(i) for i in range(1000)]
load()
"""),
    "a slow import": ("imports took slow_dependency", "import slow_dependency\n"),
    "a lock that one thread holds": ("waiting for another thread work", """
import threading, time
lock = threading.Lock()
def hold():
    for _ in range(25):
        lock.acquire(); time.sleep(0.01); lock.release(); time.sleep(0.002)
def work(holder):
    while holder.is_alive():
        lock.acquire(); lock.release(); sum(range(10_000))
holder = threading.Thread(target=hold)
holder.start()
work(holder)
"""),
    "garbage collections": ("garbage collection build", """
import gc
kept = []
def build():
    for i in range(50_000): kept.append([{}, [i]])
gc.set_threshold(300, 2, 2)
build()
"""),
    "text built piece by piece": ("build builds text piece by piece", """
def build():
    text = b""
    for _ in range(9000): text = text + b"some words in a line"
build()
"""),
}  # fmt: skip
NIGHTLY = {
    "a loader": ("waiting for data", """
import time, fastprof
for _ in range(6):
    with fastprof.record_function("load batch"): time.sleep(0.04)
    with fastprof.record_function("train"): sum(range(100_000))
"""),
    "rows of a frame": ("rows of a pandas frame total", """
import pandas as pd
def total(frame):
    return sum(row["a"] * row["b"] for _, row in frame.iterrows())
total(pd.DataFrame({"a": range(20_000), "b": range(20_000)}))
"""),
    "temporary arrays": ("norm temporary array", """
import numpy as np
def norm(x):
    for _ in range(40): y = x * x + x * 2 + x - 1
norm(np.ones(1_000_000))
"""),
    "deep copies": ("copies of objects steps", """
import copy
def steps():
    state = {i: [i] * 20 for i in range(300)}
    for _ in range(20): copy.deepcopy(state)
steps()
"""),
    "waits for a process": ("waiting commit", """
import subprocess
def commit():
    for _ in range(5): subprocess.run(["sleep", "0.05"])
commit()
"""),
    "insertion at the front": ("queue front of a list", """
def queue():
    items = []
    for i in range(25_000): items.insert(0, i)
queue()
"""),
    "membership in a list": ("distinct searches a list", """
def distinct(values):
    seen = []
    for value in values:
        if value not in seen: seen.append(value)
distinct(range(5000))
"""),
    "JSON": ("JSON save", """
import json
def save(data):
    for _ in range(60): json.dumps(data, indent=1)
save({str(i): [i] * 5 for i in range(300)})
"""),
    "logging": ("logging work", """
import io, logging
logging.basicConfig(stream=io.StringIO(), level=logging.DEBUG)
log = logging.getLogger("x")
def work():
    for i in range(6000): log.debug("value %d", i)
work()
"""),
    "dates": ("dates from text parse", """
import datetime
def parse(text): return datetime.datetime.strptime(text, "%Y-%m-%d %H:%M:%S")
for _ in range(8000): parse("2026-01-02 03:04:05")
"""),
    "a join": ("waiting for another thread finish helper", """
import threading, time
def helper(): time.sleep(0.3)
thread = threading.Thread(target=helper)
thread.start()
def finish(): thread.join()
finish()
"""),
    "answers of a server": ("waiting for input or output ask", """
import socket, threading, time
near, far = socket.socketpair()
def server():  # its sleep is shorter than the wait for all that it does
    for _ in range(5):
        far.recv(1); time.sleep(0.02); busy_until = time.thread_time() + 0.04
        while time.thread_time() < busy_until: pass
        far.send(b"x")
threading.Thread(target=server, daemon=True).start()
def ask():
    for _ in range(5):
        near.send(b"q"); near.recv(1)
ask()
"""),
    "arrays that grow": ("arrays that grow collect", """
import numpy as np
def collect():
    everything = np.zeros(0)
    for _ in range(1500): everything = np.append(everything, np.ones(200))
collect()
"""),
    "code compiled at run time": ("compiling code rules", """
def rules():
    for i in range(8000): eval(f"{i} + 1")
rules()
"""),
}  # fmt: skip
HEALTHY = {
    "nothing to do": "print(sum(range(1000)))",
    "several parts": """
def a(): return sorted(range(40_000), key=lambda x: -x)
def b(): return {i: str(i) for i in range(40_000)}
def c(): return sum(i * i for i in range(80_000))
def d(): return [hex(i) for i in range(60_000)]
a(); b(); c(); d()
""",
    # Without collections: one that the system interrupts takes half of so short a program.
    "a table": """
import dataclasses, gc
gc.disable()
@dataclasses.dataclass
class Point:
    x: int
    y: int
points = [Point(i, i) for i in range(500)]
print(sum(p.x for p in points), max(points, key=lambda p: p.y))
""",
}
HEALTHY_NIGHTLY = {
    "a product": "import numpy as np\na = np.ones((600, 600))\nfor _ in range(6): a = a @ a * 1e-9",
    "a file": """
import tempfile
with tempfile.TemporaryFile("w+") as file:
    for i in range(30_000): file.write(str(i))
    file.seek(0); print(len(file.read()))
""",
    "steps": """
import numpy as np, fastprof
x = np.ones((300, 300))
for i in range(20):
    with fastprof.record_function("step"):
        with fastprof.record_function("forward"): y = x @ x
        with fastprof.record_function("backward"): z = y @ x
""",
    "a sieve": """
def sieve(n):
    prime = bytearray([1]) * n
    for i in range(2, int(n ** 0.5) + 1):
        if prime[i]: prime[i * i :: i] = bytes(len(range(i * i, n, i)))
    return sum(prime)
print(sieve(2_000_000))
""",
    "words": """
import collections
words = ["alpha", "beta", "gamma"] * 20_000
print(collections.Counter(words).most_common(2), len(" ".join(words)))
""",
    "a recursion": "def fib(n): return n if n < 2 else fib(n - 1) + fib(n - 2)\nprint(fib(12))",
    "hashes": "import hashlib\nfor i in range(50): hashlib.sha256(bytes(200_000)).hexdigest()",
}


def findings(folder: Path, program: str) -> list[str]:
    (folder / "slow_dependency.py").write_text("import time\ntime.sleep(0.25)\n")
    (folder / "program.py").write_text(program)
    words = ["explain", "--live", "--as-json", "--explanation", "why.json", "program.py"]
    python("-m", "fastprof", *words, cwd=folder, check=True)
    found: list[str] = json.loads((folder / "why.json").read_text())["findings"]
    return found


def cases(fast: dict[str, Any], long: dict[str, Any]) -> list[Any]:
    rest = []
    for name, case in long.items():
        marks = [pytest.mark.nightly]
        if "import pandas" in str(case):
            marks.append(pytest.mark.integrations)
        rest.append(pytest.param(case, id=name, marks=marks))
    return [pytest.param(fast[name], id=name) for name in fast] + rest


@pytest.mark.parametrize("planted", cases(PLANTED, NIGHTLY))
def test_the_planted_cause_is_the_first_finding(tmp_path: Path, planted: tuple[str, str]) -> None:
    words, program = planted
    found = findings(tmp_path, program)
    missing = [word for word in words.split() if word not in found[0]]
    assert not missing, found


@pytest.mark.parametrize("program", cases(HEALTHY, HEALTHY_NIGHTLY))
def test_healthy_programs_have_no_findings(tmp_path: Path, program: str) -> None:
    assert findings(tmp_path, program) == []
