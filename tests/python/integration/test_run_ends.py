# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: E501 (programs of one line)
"""A program under `fastprof run` ends as under plain Python: exit status, output and its order, and in time."""

from __future__ import annotations

import importlib.util
import os
import re
import signal
import subprocess
import sys
import time
import zipapp
from pathlib import Path

import pytest
from processes import python

import fastprof

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
    "timer": "import threading; printed = threading.Event()\n"
    "threading.Timer(.05, lambda: (printed.wait(), print('timer'))).start(); print('main'); printed.set()",
    "sys.exit in a thread": "import threading, sys; threading.Thread(target=sys.exit, args=(3,)).start(); print('main')",
    "exception in a thread": "import threading; threading.Thread(target=lambda: 1 / 0).start(); print('main')",
    "exception": "print(1); raise ValueError('no')",
    "exit with text": "import sys; sys.exit('text')",
    "os._exit": "import os; os._exit(5)",
    "stdout closed": "import sys; print(1, flush=True); sys.stdout.close()",
    "error of fastprof's": "import fastprof; print(1); raise fastprof.errors.ValueError('no')",
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
    "process pool": "import concurrent.futures as c\n"
    + MAIN
    + "with c.ProcessPoolExecutor(2) as pool: print(list(pool.map(abs, range(-3, 0))))",
    "manager and pool": "import multiprocessing as m\n"
    + MAIN
    + "with m.Manager() as manager, m.Pool(2) as pool: d = manager.dict(); pool.starmap(d.update, [({n: n},) for n in range(4)]); print(sorted(d.items()))",
    "daemon thread that prints at the end": "import atexit, threading; end = threading.Event()\n"
    "t = threading.Thread(target=lambda: (end.wait(), print('daemon')), daemon=True); t.start()\n"
    "atexit.register(lambda: (end.set(), t.join(), print('joined'))); print('main')",
    "exception in atexit after a pool": "import atexit, concurrent.futures as c; atexit.register(print, 'last'); atexit.register(lambda: 1 / 0)\n"
    "pool = c.ThreadPoolExecutor(2); pool.submit(print, 'work')",
    "finaliser at the end": "class A:\n    def __del__(self): print('del')\na = A()\nimport gc; del a; gc.collect(); print('end')",
}  # fmt: skip

ITEMS = "import torch\nclass Items(torch.utils.data.Dataset):\n    def __len__(self): return 8\n    def __getitem__(self, n): return n\n"
LOAD = "torch.utils.data.DataLoader(Items(), 4, num_workers=2"
COMPILE = "import torch\nprint(torch.compile(lambda x: (x * 2).sin() + 1BACKEND)(torch.zeros(8)))"
THREADS = "import os; os.environ['TORCHINDUCTOR_COMPILE_THREADS'] = "
# Programs of packages: name -> (package, program).
OF_PACKAGES = {
    "joblib": ("joblib", "from joblib import Parallel, delayed\ndef work(n): return -n\n"
        + MAIN + "print(Parallel(n_jobs=2)(delayed(work)(n) for n in range(4)))"),
    "grid search": ("sklearn", "import sklearn.datasets as d, sklearn.model_selection as s, sklearn.linear_model as l\n"
        + MAIN + "print(s.GridSearchCV(l.Ridge(), {'alpha': [1, 2, 3]}, n_jobs=2).fit(*d.load_diabetes(return_X_y=True)).best_params_)"),
    "DataLoader": ("torch", ITEMS + MAIN + f"for n in range(2): print([b.tolist() for b in {LOAD})])"),
    "persistent DataLoader": ("torch", ITEMS + MAIN + f"loader = {LOAD}, persistent_workers=True, multiprocessing_context='fork')\n"
        "    for n in range(2): print([b.tolist() for b in loader])"),
    "torch.compile, eager": ("torch", COMPILE.replace("BACKEND", ", backend='eager'")),
    "torch.compile, 1 thread": ("torch", THREADS + "'1'\n" + COMPILE.replace("BACKEND", "")),
    "torch.compile, 2 processes": ("torch", THREADS + "'2'\n" + COMPILE.replace("BACKEND", "")),
}  # fmt: skip
SLOW = (
    "grid search",
    "torch.compile, 1 thread",
    "torch.compile, 2 processes",
)  # imports; a C++ compiler
# Ways to name a program, with its arguments.
WORDS = {
    "module": ["-m", "pack.mod", "a"],
    "package": ["-m", "pack", "--", "-c"],
    "folder": ["pack", "a"],
    "zipapp": ["app.pyz", "a"],
    "code": ["-c", "import sys; print(sys.argv); sys.exit(3)", "-x"],
    "pytest": [
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        "-p",
        "no:randomly",
        "-c",
        os.devnull,
        "test_one.py",
    ],
    "unittest": ["-m", "unittest", "test_one"],
}
UNDER = {"plain": (), "profiled": ("-m", "fastprof", "run", "--no-trace")}


def check_ends_alike(folder: Path, words: list[str]) -> None:
    """Run a program with and without a profile, and compare how it ends."""
    ended = [
        python(*under, *words, cwd=folder, TORCHINDUCTOR_CACHE_DIR=str(folder / "compiled"))
        for under in UNDER.values()
    ]
    plain, profiled = ((e.returncode, re.sub(r"\d+\.\d+s", "0s", e.stdout)) for e in ended)
    assert profiled == plain, ended[1].stderr


@pytest.mark.parametrize("name", PROGRAMS)
def test_it_ends_as_without_a_profile(tmp_path: Path, name: str) -> None:
    (tmp_path / "p.py").write_text(PROGRAMS[name] + "\n")
    check_ends_alike(tmp_path, ["p.py"])


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(
            name,
            marks=[
                *([pytest.mark.integrations] if package == "torch" else []),
                *([pytest.mark.nightly] if name in SLOW else []),
            ],
        )
        for name, (package, _) in OF_PACKAGES.items()
    ],
)
def test_programs_of_packages_end_as_without_a_profile(tmp_path: Path, name: str) -> None:
    package, program = OF_PACKAGES[name]
    if importlib.util.find_spec(package) is None:
        pytest.skip(f"needs {package}")
    (tmp_path / "p.py").write_text(program + "\n")
    check_ends_alike(tmp_path, ["p.py"])


@pytest.mark.parametrize("words", WORDS.values(), ids=WORDS)
def test_however_it_is_named_it_ends_as_without_a_profile(tmp_path: Path, words: list[str]) -> None:
    (tmp_path / "test_one.py").write_text(
        "import unittest\ndef test_good(): pass\ndef test_bad(): assert 1 + 1 == 3\n"
        "class T(unittest.TestCase):\n    def test_sums(self): self.assertEqual(1 + 1, 3)\n"
    )
    (tmp_path / "pack").mkdir()
    for name in ("__init__", "__main__", "mod"):
        (tmp_path / f"pack/{name}.py").write_text(
            "import sys; print(__name__, sys.argv, __spec__ and __spec__.name)\n"
            "if __name__ == '__main__': sys.exit(len(sys.argv))\n"
        )
    zipapp.create_archive(tmp_path / "pack", tmp_path / "app.pyz")
    check_ends_alike(tmp_path, words)


def test_a_page_is_written_although_pools_have_ended(tmp_path: Path) -> None:
    (tmp_path / "p.py").write_text(PROGRAMS["pool and atexit"] + "\n")
    done = python("-m", "fastprof", "run", "--html", "p.py", cwd=tmp_path)
    assert done.returncode == 0 and (tmp_path / "p.html").stat().st_size > 10_000, done.stderr


@pytest.mark.parametrize("own", ["", "signal.signal(signal.SIGTERM, lambda *a: sys.exit(7))"])
@pytest.mark.parametrize("waits_s", [(0, 0.0003, 0.0006, 0.001), (0.05, 0.3)], ids=["at", "after"])
def test_sigterm_at_and_after_the_end_loses_nothing(
    tmp_path: Path, own: str, waits_s: tuple[float, ...]
) -> None:
    count = 10 if waits_s[0] == 0 else 300_000
    (tmp_path / "p.py").write_text(f"""
import signal, sys, fastprof
{own}
for _ in range({count}):
    with fastprof.record_function("range"): pass
print("done", flush=True)
""")
    words = [sys.executable, "-m", "fastprof", "run", "--no-calls", "-o", "t.json", "p.py"]
    for wait_s in waits_s:
        with subprocess.Popen(words, cwd=tmp_path, stdout=-1, stderr=-1) as running:
            assert running.stdout is not None and running.stdout.readline() == b"done\n"
            time.sleep(wait_s)
            running.send_signal(signal.SIGTERM)
            _, said = running.communicate(timeout=120)
        assert b"wrote" in said
        assert len(fastprof.load(tmp_path / "t.json")) == count + 1
        (tmp_path / "t.json").unlink()


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
    python("-m", "fastprof", "run", "--no-calls", "-o", "t.json", "p.py", cwd=tmp_path, check=True)
    table = fastprof.load(tmp_path / "t.json")
    row = {table.name(row): row for row in range(len(table))}
    assert table.end_ns[row["p.py"]] <= table.start_ns[row["late"]]
