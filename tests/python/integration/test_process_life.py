# SPDX-License-Identifier: Apache-2.0
"""Profiles and the life of a process: fork, exit with an open profile, threads that continue."""

from __future__ import annotations

import json
import textwrap
from pathlib import Path

from processes import python


def run(program: str, *arguments: str, expect: int = 0) -> str:
    result = python("-W", "error", "-c", textwrap.dedent(program), *arguments)
    assert result.returncode == expect, result.stderr
    return result.stdout + result.stderr


def test_open_profile_is_finished_at_exit(tmp_path: Path) -> None:
    path = tmp_path / "trace.json"
    run(
        """
        import sys, fastprof
        p = fastprof.profile(on_trace_ready=lambda p: p.export_chrome_trace(sys.argv[1]))
        p.start()
        with fastprof.record_function("work"):
            pass
        fastprof.record_function("open").__enter__()
        """,
        str(path),
    )
    events = {e["name"]: e for e in json.loads(path.read_text())["traceEvents"] if e["ph"] == "X"}
    assert set(events) == {"work", "open"}
    assert events["open"]["args"]["finished"] is False


def test_exit_with_an_exception_and_a_failing_handler() -> None:
    output = run(
        """
        import fastprof
        def fail(p): raise OSError("full disk")
        p = fastprof.profile(on_trace_ready=fail)
        p.start()
        raise SystemExit(3)
        """,
        expect=3,
    )
    assert "cannot stop a profile" in output and "full disk" in output


def test_exit_while_daemon_threads_record() -> None:
    run(
        """
        import threading, time, fastprof
        def work():
            while True:
                with fastprof.record_function("daemon"):
                    pass
        p = fastprof.profile(with_stack=True)
        p.start()
        for _ in range(2):
            threading.Thread(target=work, daemon=True).start()
        time.sleep(0.05)
        """
    )


def test_fork_inside_a_profile() -> None:
    output = run(
        """
        import os, sys, warnings
        import fastprof
        from fastprof import record_function
        warnings.simplefilter("ignore", DeprecationWarning)
        called = []
        outer = record_function("outer")
        with fastprof.profile(with_stack=True, on_trace_ready=lambda p: called.append(1)) as p:
            with outer:
                child = os.fork()
                if child == 0:
                    with record_function("in child"):
                        pass
                else:
                    os.waitpid(child, 0)
                    with record_function("in parent"):
                        pass
        names = [e.name for e in p.events() if not e.is_python_function]
        if child == 0:
            assert names == [] and called == [], (names, called)
            with fastprof.profile(with_stack=True) as own:
                with record_function("own"):
                    os.getppid()
            ranges = [e for e in own.events() if not e.is_python_function]
            assert [e.name for e in ranges] == ["own"] and ranges[0].stack
            assert "<built-in function getppid>" in [e.name for e in own.events()]
            assert own.event_table.tracks[0].pid == os.getpid()
            os._exit(0 if len(ranges) == 1 else 5)
        assert names == ["outer", "in parent"] and called == [1], (names, called)
        print("parent fine")
        """
    )
    assert "parent fine" in output


def test_fork_while_other_threads_read_results() -> None:
    """A forked child reads results of its own, whatever the parent's threads were computing."""
    run(
        """
        import os, signal, threading, fastprof
        def read():
            with fastprof.profile() as p:
                with fastprof.record_function("q"): pass
            assert len(p.event_table) == 1 and p.key_averages().table()
        read()
        over = threading.Event()
        def repeat():
            while not over.is_set(): read()
        threads = [threading.Thread(target=repeat) for _ in range(2)]
        for thread in threads: thread.start()
        hung = 0
        for _ in range(60):
            if (pid := os.fork()) == 0:
                signal.alarm(100)
                read()
                os._exit(0)
            hung += os.waitpid(pid, 0)[1] != 0
        over.set()
        for thread in threads: thread.join()
        assert hung == 0
        """
    )
