# SPDX-License-Identifier: Apache-2.0
"""Traced calls over time: nothing is kept alive, deep stacks, debugging aids, forks, bounds, kills."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import textwrap
import weakref
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from processes import python, resident_kilobytes, run_python

import fastprof


def fib(n: int) -> int:
    return n if n < 2 else fib(n - 1) + fib(n - 2)


def test_code_and_locals_are_not_kept_alive() -> None:
    class Local:
        pass

    with fastprof.profile(python_calls=True) as prof:
        for _ in range(50):
            scope: dict[str, Any] = {}
            exec(compile("def made(x): return x", "<made>", "exec"), scope)
            local = Local()
            reference = weakref.ref(local)
            code = weakref.ref(scope["made"].__code__)
            scope["made"](local)
            del local
            scope.clear()
            gc.collect()
            assert reference() is None and code() is None
    assert {f.function: f.calls for f in prof.python_calls().functions}["made"] == 50


def test_deep_recursion() -> None:
    printed = run_python("""
        import sys, threading, fastprof
        def down(n): return n if n == 0 else down(n - 1)
        sys.setrecursionlimit(200000)
        threading.stack_size(1 << 29)
        def run():
            with fastprof.profile(python_calls=True) as prof:
                down(100000)
            found = {f.function: f[3:5] for f in prof.python_calls().functions}
            print(found["down"])
        t = threading.Thread(target=run); t.start(); t.join()
    """)
    assert printed.strip() == "(100001, 1)"


@pytest.mark.parametrize("setting", ["gc", "debug", "dev"])
def test_under_debugging_aids(setting: str) -> None:
    code = """
        import gc, sys, threading, fastprof
        if "gc" in sys.argv: gc.set_threshold(1)
        def fib(n): return n if n < 2 else fib(n - 1) + fib(n - 2)
        for _ in range(20):
            with fastprof.profile(python_calls=True) as prof:
                t = threading.Thread(target=fib, args=(5,)); t.start(); t.join()
                exec("def f(): return [i for i in range(3)]\\nf()", {})
            assert {f.function: f.calls for f in prof.python_calls().functions}["fib"] == 15
    """
    command = [sys.executable, "-W", "error"] + (["-X", "dev"] if setting == "dev" else [])
    environment = {"PYTHONMALLOC": "debug"} if setting == "debug" else {}
    subprocess.run(
        [*command, "-c", textwrap.dedent(code), setting], check=True, timeout=300,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), **environment},
    )  # fmt: skip


def test_many_short_profiles_keep_memory_flat() -> None:
    def rounds(n: int) -> None:
        for _ in range(n):
            with fastprof.profile(python_calls=True) as prof:
                fib(4)
            assert len(prof.event_table) > 9

    rounds(200)
    before = resident_kilobytes()
    rounds(1000)
    assert resident_kilobytes() - before < 8000


def test_a_forked_child_is_not_traced() -> None:
    printed = run_python("""
        import os, sys, fastprof
        def fib(n): return n if n < 2 else fib(n - 1) + fib(n - 2)
        prof = fastprof.profile(python_calls=True)
        prof.start()
        pid = os.fork()
        if pid == 0:
            fib(3)
            assert sys.getprofile() is None
            with fastprof.profile(python_calls=True) as own:
                fib(3)
            assert {f.function: f.calls for f in own.python_calls().functions}["fib"] == 5
            os._exit(0)
        assert os.waitpid(pid, 0)[1] == 0
        fib(3)
        prof.stop()
        print({f.function: f.calls for f in prof.python_calls().functions}["fib"])
    """)
    assert printed.strip() == "5"


# ---- bounds and files ----------------------------------------------------------------------------


@pytest.mark.parametrize("options", [
    {"overflow": "spill"}, {"overflow": "drop_newest"}, {"overflow": "overwrite_oldest"}
])  # fmt: skip
def test_calls_beyond_the_bound_are_kept_or_counted(options: dict[str, Any]) -> None:
    options |= {"python_calls": True, "max_bytes": 1 << 17, "all_threads": False}
    with fastprof.profile(**options) as prof:
        for _ in range(300):
            fib(8)
    kept = {f.function: f.calls for f in prof.python_calls().functions}.get("fib", 0)
    dropped = sum(prof.event_table.dropped.values())
    if options["overflow"] == "spill":
        assert (kept, dropped) == (300 * 67, 0)
    else:
        assert kept < 300 * 67 <= kept + dropped < 300 * 67 + 50


def test_a_killed_process_leaves_its_calls(tmp_path: Path) -> None:
    file = tmp_path / "records"
    code = f"""
        import fastprof, os
        def fib(n): return n if n < 2 else fib(n - 1) + fib(n - 2)
        prof = fastprof.profile(python_calls=True, backing_file={str(file)!r})
        prof.start()
        for _ in range(1000): fib(5); len("abc")
        os.kill(os.getpid(), 9)
    """
    assert python("-c", textwrap.dedent(code)).returncode == -9
    table = fastprof.recover(file)
    counted = Counter(table.sites.names[int(site)].split(": ")[-1] for site in table.column("site"))
    assert counted["fib"] == 15000
    assert counted["<built-in function len>"] == 1000
