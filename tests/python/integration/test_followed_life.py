# SPDX-License-Identifier: Apache-2.0
"""Followed processes that are killed, continue, or cannot record; parents that fail or are killed; cleaning up."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from followed_programs import (
    TIMEOUT_S,
    check_order,
    environment,
    followed,
    program_of,
    ranges,
    with_shards,
)
from processes import python

import fastprof


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    yield from with_shards(tmp_path)


def test_a_killed_child_loses_only_its_open_ranges(folder: Path) -> None:
    result = followed(
        folder,
        """
        with fastprof.profile(follow_children=True) as prof:
            with record_function("around"):
                pid = os.fork()
                if pid == 0:
                    record_function("open").__enter__()
                    for i in range(20000):
                        with record_function("short"):
                            pass
                    os.kill(os.getpid(), signal.SIGKILL)
                assert os.waitpid(pid, 0)[1] == signal.SIGKILL
        report(prof)
        """,
    )
    assert len(ranges(result, "short")) == 20000
    assert [event[4] for event in ranges(result, "short")] == [True] * 20000
    assert [event[4] for event in ranges(result, "open")] == [False]
    check_order(result)


def test_a_child_that_goes_on_is_read_as_it_is_and_told(folder: Path) -> None:
    result = followed(
        folder,
        """
        ready, go = os.pipe(), os.pipe()
        with fastprof.profile(follow_children=True) as prof:
            pid = os.fork()
            if pid == 0:
                from fastprof.profiler import followed_process as child
                record_function("goes on").__enter__()
                os.write(ready[1], b"x")
                os.read(go[0], 1)
                deadline = time.monotonic() + 60
                while child._recording is not None and time.monotonic() < deadline:
                    time.sleep(0.001)
                with open("/proc/self/maps") as maps:
                    held = [line for line in maps if ".shard" in line]
                with fastprof.profile() as own:
                    with record_function("own"):
                        pass
                after = os.fork()
                if after == 0:
                    os._exit(0)
                os.waitpid(after, 0)
                followed = "FASTPROF_FOLLOW" in os.environ
                with open(sys.argv[1] + ".child", "w") as file:
                    json.dump([child._recording is None, held, len(own.event_table), followed], file)
                os._exit(0)
            os.read(ready[0], 1)
            before = time.time_ns()
        os.write(go[1], b"x")
        os.waitpid(pid, 0)
        report(prof, child=pid, before=before)
        """,
    )
    (goes_on,) = ranges(result, "goes on")
    assert goes_on[1] == result["child"] and not goes_on[4]
    # It ends at the stop, not at the last stamp of the child.
    assert goes_on[3] >= result["before"] - 1_000_000
    assert json.loads((folder / "result.json.child").read_text()) == [True, [], 1, False]


def test_nothing_is_left_behind(folder: Path) -> None:
    result = followed(
        folder,
        """
        import _posixsubprocess, multiprocessing.util
        def starts():
            forks = _posixsubprocess.fork_exec, getattr(subprocess, "_fork_exec", None)
            return (*forks, os.posix_spawn, os.posix_spawnp)
        before = dict(os.environ), starts(), sorted(os.listdir("/proc/self/fd"))
        for _ in range(3):
            with fastprof.profile(follow_children=True) as prof:
                during = os.environ["FASTPROF_FOLLOW"]
                mode = os.stat(during).st_mode
                subprocess.run(["true"], timeout=100)
            after = dict(os.environ), starts(), sorted(os.listdir("/proc/self/fd"))
            assert before == after
            assert not os.path.exists(during)
        report(prof, mode=mode & 0o777)
        """,
    )
    assert result["mode"] == 0o700


def test_the_folder_goes_when_a_profile_is_given_up(folder: Path) -> None:
    followed(
        folder,
        """
        prof = fastprof.profile(follow_children=True)
        prof.start()
        first = os.environ["FASTPROF_FOLLOW"]
        prof._abandon()
        assert not os.path.exists(first) and "FASTPROF_FOLLOW" not in os.environ

        from fastprof.profiler import children
        real = children.read_shards
        def interrupted(folder):
            children.read_shards = real
            raise KeyboardInterrupt
        children.read_shards = interrupted
        prof = fastprof.profile(follow_children=True)
        prof.start()
        pid = os.fork()
        if pid == 0:
            with record_function("child"):
                os._exit(0)
        os.waitpid(pid, 0)
        try:
            prof.stop()
        except KeyboardInterrupt:
            pass
        assert "child" in {prof.event_table.name(i) for i in range(len(prof.event_table))}

        def failing(folder):
            raise MemoryError("no room")
        children.read_shards = failing
        import warnings
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            with fastprof.profile(follow_children=True) as failed:
                pass
        assert "no room" in failed.missing["follow_children"] and len(told) == 1
        open_at_exit = fastprof.profile(follow_children=True)
        report(prof)
        open_at_exit.start()
        """,
    )


def test_children_that_cannot_record_are_named(folder: Path) -> None:
    elsewhere = folder / "elsewhere" / "fastprof"
    elsewhere.mkdir(parents=True)
    (elsewhere / "__init__.py").write_text("raise ImportError('built for another Python')\n")
    result = followed(
        folder,
        f"""
        import warnings
        warnings.simplefilter("ignore")
        with fastprof.profile(follow_children=True) as prof:
            path = os.environ["PYTHONPATH"].split(os.pathsep)
            other = os.pathsep.join([path[0], {str(elsewhere.parent)!r}])
            # Not the environment's Python, which may find an editable fastprof before all paths.
            command = [os.path.realpath(sys._base_executable), "-c", ""]
            subprocess.run(command, env={{**os.environ, "PYTHONPATH": other}}, timeout=100)
            options = os.path.join(os.environ["FASTPROF_FOLLOW"], "options.json")
            with open(options) as file:
                told = json.load(file)
            with open(options, "w") as file:
                json.dump({{**told, "version": "0.0.1"}}, file)
            subprocess.run([sys.executable, "-c", ""], timeout=100)
        report(prof)
        """,
    )
    reason = result["missing"]["follow_children"]
    assert "built for another Python" in reason and "0.0.1" in reason


def test_children_whose_options_ignore_the_environment_are_named(folder: Path) -> None:
    result = followed(
        folder,
        """
        import warnings
        warnings.simplefilter("ignore")
        with fastprof.profile(follow_children=True) as prof:
            for options in (["-S"], ["-bI"], ["-X", "dev", "-E"]):
                subprocess.run([sys.executable, *options, "-c", "import sys"], timeout=100)
            os.waitpid(os.posix_spawn(sys.executable, [sys.executable, "-Ic", ""], os.environ), 0)
            if os.fork() == 0:
                os.execv(sys.executable, ["python3", "-sS", "-c", ""])
            os.wait()
            subprocess.run([sys.executable, "-W", "error", "-c", "", "-S"], timeout=100)
        report(prof)
        """,
    )
    reason = result["missing"]["follow_children"]
    assert [reason.count(f"`python {option}`") for option in ("-S", "-I", "-E")] == [2, 2, 1]


def test_an_earlier_forkserver_is_named(folder: Path) -> None:
    result = followed(
        folder,
        """
        import multiprocessing, warnings
        warnings.simplefilter("ignore")
        context = multiprocessing.get_context("forkserver")
        def start():
            process = context.Process(target=os.getpid)
            process.start()
            process.join()
        start()
        with fastprof.profile(follow_children=True) as prof:
            start()
            start()
        report(prof)
        """,
    )
    assert result["missing"]["follow_children"].count("forkserver started before") == 1


def test_a_daemon_closes_all_descriptors(folder: Path) -> None:
    result = followed(
        folder,
        """
        with fastprof.profile(follow_children=True) as prof:
            pid = os.fork()
            if pid == 0:
                os.closerange(3, 1000)
                kept = [os.open(sys.argv[1] + f".{i}", os.O_RDWR | os.O_CREAT) for i in range(40)]
                inner = os.fork()
                if inner == 0:
                    with record_function("daemon"):
                        os._exit(0)
                os.waitpid(inner, 0)
                written = [os.fstat(descriptor).st_size for descriptor in kept]
                os._exit(0 if not any(written) else 1)
            status = os.waitpid(pid, 0)[1]
        report(prof, status=status)
        """,
    )
    assert result["status"] == 0
    assert len(ranges(result, "daemon")) == 1


def test_forks_amid_threads_that_record(folder: Path) -> None:
    result = followed(
        folder,
        """
        import threading, warnings
        warnings.simplefilter("ignore", DeprecationWarning)  # of forks amid threads, since Python 3.12
        over, counts = threading.Event(), []

        def record():
            count = 0
            while not over.is_set() or count < 100:
                with record_function("in thread"):
                    count += 1
            counts.append(count)

        with fastprof.profile(follow_children=True, max_bytes=1 << 28) as prof:
            threads = [threading.Thread(target=record) for _ in range(2)]
            for thread in threads:
                thread.start()
            for _ in range(10):
                pid = os.fork()
                if pid == 0:
                    for _ in range(100):
                        with record_function("in child"):
                            pass
                    os._exit(0)
                os.waitpid(pid, 0)
            over.set()
            for thread in threads:
                thread.join()
        table = prof.event_table
        names = [table.sites.names[i] for i in table.column("site").tolist()]
        found = {name: names.count(name) for name in set(names)}
        with open(sys.argv[1], "w") as file:
            json.dump({"found": found, "threads": sum(counts), "dropped": table.dropped}, file)
        """,
    )
    assert result["found"]["in thread"] + sum(result["dropped"].values()) == result["threads"]
    assert result["found"]["in child"] == 1000


def test_a_killed_parent_leaves_a_folder_that_can_be_read(tmp_path: Path) -> None:
    (tmp_path / "shards").mkdir()
    body = """
        prof = fastprof.profile(follow_children=True)
        prof.start()
        pid = os.fork()
        if pid == 0:
            with record_function("child"):
                pass
            from fastprof.profiler import followed_process as child
            deadline = time.monotonic() + 60
            while child._recording is not None and time.monotonic() < deadline:
                time.sleep(0.001)
            open(sys.argv[1] + (".told" if child._recording is None else ".not"), "w").close()
            os._exit(0)
        subprocess.run([sys.executable, "-c", "import fastprof; fastprof.mark('executed')"], timeout=100)
        print(os.environ["FASTPROF_FOLLOW"], flush=True)
        os.kill(os.getpid(), signal.SIGKILL)
    """
    done = subprocess.run(
        program_of(tmp_path, body),
        env=environment(tmp_path),
        stdout=subprocess.PIPE,
        text=True,
        timeout=TIMEOUT_S,
    )
    assert done.returncode == -signal.SIGKILL
    deadline = time.monotonic() + 60
    while not list(tmp_path.glob("result.json.*")) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert [path.suffix for path in tmp_path.glob("result.json.*")] == [".told"]
    (left,) = (tmp_path / "shards").iterdir()
    table = fastprof.recover(left)
    names = {table.name(i) for i in range(len(table))}
    assert {"child", "executed"} <= names and len(table.metadata["processes"]) == 2
    words = ("recover", "-o", tmp_path / "t.json", left)
    told = python("-m", "fastprof", *words, check=True)
    assert "folder of 2 processes" in told.stdout and "child" in told.stdout
    trace = json.loads((tmp_path / "t.json").read_text())
    shown = [e for e in trace["traceEvents"] if e["ph"] == "M" and e["name"] == "process_name"]
    assert {e["pid"] for e in shown} == {p["pid"] for p in table.metadata["processes"]}
    shutil.rmtree(left)
