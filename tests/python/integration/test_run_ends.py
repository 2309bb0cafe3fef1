# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: E501 (programs of one line)
"""A program under `fastprof run` ends as under plain Python: exit status, output and its order, and in time."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import fastprof

LIMIT_S = 120  # a hang, on a machine under any load
MAIN = 'if __name__ == "__main__":\n    '
PROGRAMS = {
    "thread pool not shut down": "import concurrent.futures as c\n"
    "print(c.ThreadPoolExecutor(2).submit(pow, 2, 3).result())",
    "pool kept by a module": "import concurrent.futures as c\n"
    "pool = c.ThreadPoolExecutor(2); pool.submit(print, 'work')",
    "pool and atexit": "import atexit, concurrent.futures as c; atexit.register(print, 'atexit')\n"
    "pool = c.ThreadPoolExecutor(1); pool.submit(print, 'work')",
    "work queued at the end": "import time, concurrent.futures as c; pool = c.ThreadPoolExecutor(1)\n"
    "for n in range(5): pool.submit(lambda n=n: (time.sleep(.02), print(n)))",
    "process pool not shut down": "import concurrent.futures as c\n"
    + MAIN
    + "pool = c.ProcessPoolExecutor(2); print(pool.submit(pow, 2, 3).result())",
    "run_in_executor": "import asyncio, time\nasync def main():\n"
    "    print(await asyncio.get_running_loop().run_in_executor(None, lambda: time.sleep(.01) or 5))\nasyncio.run(main())",
    "executor of a loop left open": "import asyncio\nloop = asyncio.new_event_loop()\n"
    "print(loop.run_until_complete(loop.run_in_executor(None, pow, 2, 3)))",
    "multiprocessing pool": "import multiprocessing as m\n"
    + MAIN
    + "pool = m.Pool(2); print(pool.map(abs, [-1, -2])); pool.close(); pool.join()",
    "manager": "import multiprocessing as m\n" + MAIN + "d = m.Manager().dict(); d['a'] = 1; print(dict(d))",
    "child ended by SIGTERM": "import multiprocessing as m, time\n"
    + MAIN
    + "p = m.get_context('fork').Process(target=time.sleep, args=(100,)); p.start(); p.terminate(); p.join(); print(p.exitcode)",
    "queue with a feeder": "import multiprocessing as m\n" + MAIN + "q = m.Queue(); q.put(1); print(q.get())",
    "daemon thread": "import threading, time; threading.Thread(target=time.sleep, args=(100,), daemon=True).start(); print(1)",
    "thread that outlives main": "import threading, time, sys\n"
    "threading.Thread(target=lambda: (time.sleep(.1), print('late'))).start(); sys.exit(4)",
    "thread started by a thread": "import threading, time\n"
    "def last(): time.sleep(.05); print('last')\n"
    "threading.Thread(target=lambda: threading.Thread(target=last).start()).start()",
    "timer": "import threading; threading.Timer(.05, print, ['timer']).start(); print('main')",
    "sys.exit in a thread": "import threading, sys; threading.Thread(target=sys.exit, args=(3,)).start(); print('main')",
    "exception in a thread": "import threading; threading.Thread(target=lambda: 1 / 0).start(); print('main')",
    "exception": "print(1); raise ValueError('no')",
    "exit with text": "import sys; sys.exit('text')",
    "os._exit": "import os; os._exit(5)",
    "exception in atexit": "import atexit; atexit.register(lambda: 1 / 0); print(1)",
    "exit in atexit": "import atexit, sys; atexit.register(sys.exit, 9); print(1)",
    "fork": "import os\nif os.fork() == 0:\n    print('child', flush=True); os._exit(0)\nos.wait(); print('parent')",
    "fork that returns": "import os, sys\npid = os.fork()\nif pid: os.waitpid(pid, 0)\nprint('parent' if pid else 'child')",
    "killed by SIGTERM": "import os, signal, time\nprint('on', flush=True); os.kill(os.getpid(), signal.SIGTERM); time.sleep(100)",
    "SIGTERM handled": "import os, signal, sys, time\nsignal.signal(signal.SIGTERM, lambda *a: (print('own'), sys.exit(7)))\n"
    "os.kill(os.getpid(), signal.SIGTERM); time.sleep(100)",
    "SIGTERM ignored": "import os, signal\nsignal.signal(signal.SIGTERM, signal.SIG_IGN); os.kill(os.getpid(), signal.SIGTERM); print(1)",
    "SIGINT": "import os, signal, time\nprint('on', flush=True); os.kill(os.getpid(), signal.SIGINT); time.sleep(100)",
    "SIGKILL": "import os, signal; os.kill(os.getpid(), signal.SIGKILL)",
    "finaliser at the end": "class A:\n    def __del__(self): print('del')\na = A()\nimport gc; del a; gc.collect(); print('end')",
}  # fmt: skip


@pytest.mark.parametrize("name", PROGRAMS)
def test_it_ends_as_without_a_profile(tmp_path: Path, name: str) -> None:
    (tmp_path / "p.py").write_text(PROGRAMS[name] + "\n")
    ended = [
        subprocess.run(
            [sys.executable, *words, "p.py"], cwd=tmp_path, capture_output=True, text=True, timeout=LIMIT_S
        )
        for words in ([], ["-m", "fastprof", "run", "--no-trace"])
    ]  # fmt: skip
    assert (ended[1].returncode, ended[1].stdout) == (ended[0].returncode, ended[0].stdout)


def test_a_page_is_written_although_pools_have_ended(tmp_path: Path) -> None:
    (tmp_path / "p.py").write_text(PROGRAMS["pool and atexit"] + "\n")
    done = subprocess.run(
        [sys.executable, "-m", "fastprof", "run", "--html", "p.py"],
        cwd=tmp_path, capture_output=True, text=True, timeout=LIMIT_S,
    )  # fmt: skip
    assert done.returncode == 0 and (tmp_path / "p.html").stat().st_size > 10_000, done.stderr


def test_sigterm_keeps_what_was_recorded(tmp_path: Path) -> None:
    (tmp_path / "p.py").write_text(
        "import fastprof\nwith fastprof.record_function('done'): pass\n" + PROGRAMS["killed by SIGTERM"]
    )  # fmt: skip
    done = subprocess.run(
        [sys.executable, "-m", "fastprof", "run", "p.py"],
        cwd=tmp_path, capture_output=True, text=True, timeout=LIMIT_S,
    )  # fmt: skip
    assert done.returncode == -15 and "done" in done.stderr and (tmp_path / "p.trace.json").exists()


def test_waiting_for_threads_is_not_the_programs_time(tmp_path: Path) -> None:
    """The range of the program ends before its threads are waited for, which ends the event's wait here."""
    (tmp_path / "p.py").write_text("""
import threading, fastprof
ends = threading.Event()
threading._register_atexit(ends.set)
def late():
    ends.wait()
    with fastprof.record_function("late"): pass
threading.Thread(target=late).start()
""")
    done = subprocess.run(
        [sys.executable, "-m", "fastprof", "run", "--no-calls", "-o", "t.json", "p.py"],
        cwd=tmp_path, capture_output=True, text=True, timeout=LIMIT_S,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    table = fastprof.load(tmp_path / "t.json")
    row = {table.name(row): row for row in range(len(table))}
    assert table.end_ns[row["p.py"]] <= table.start_ns[row["late"]]
