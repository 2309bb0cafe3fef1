# SPDX-License-Identifier: Apache-2.0
"""Attach to a live server again and again: no request fails, and neither side keeps memory, threads or files.

FASTPROF_STRESS multiplies the number of times; 50 is 1,000 from outside and 200 into the process.
"""

from __future__ import annotations

import contextlib
import http.client
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from processes import python

import fastprof
from fastprof.attach.outside import sample_from_outside
from fastprof.attach.processes import status_of

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="needs Linux")

STRESS = float(os.environ.get("FASTPROF_STRESS", "1"))
WAIT_S = 120
ANSWER = str(sum(range(3000))).encode()
THREADS = """
import http.server
class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def do_GET(self):
        body = str(sum(range(3000))).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
    def log_message(self, *args): pass
server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
print(server.server_address[1], flush=True)
server.serve_forever()
"""
ASYNCIO = """
import asyncio
async def answer(reader, writer):
    with __import__("contextlib").suppress(ConnectionError):
        while await reader.readuntil(b"\\r\\n\\r\\n"):
            await asyncio.sleep(0.001)
            body = str(sum(range(3000))).encode()
            writer.write(b"HTTP/1.1 200 OK\\r\\nContent-Length: %d\\r\\n\\r\\n%s" % (len(body), body))
            await writer.drain()
async def main():
    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()
asyncio.run(main())
"""


class Held(NamedTuple):
    """What a process holds."""

    memory_kb: int
    threads: int
    files: int


def held(pid: int) -> Held:
    """The least of some readings: requests have threads and sockets of their own meanwhile."""
    found = []
    for _ in range(20):
        status = status_of(pid)
        files = len(os.listdir(f"/proc/{pid}/fd"))
        found.append((int(status["VmRSS"].split()[0]), int(status["Threads"]), files))
        time.sleep(0.01)
    return Held(*(min(each) for each in zip(*found, strict=True)))


@contextlib.contextmanager
def asked(code: str) -> Iterator[tuple[int, list[bytes], list[float]]]:
    """A server's pid; the answers that four clients get meanwhile, and their seconds."""
    answers: list[bytes] = []
    took_s: list[float] = []
    ends, connected = threading.Event(), threading.Barrier(5, timeout=WAIT_S)

    def ask(port: int) -> None:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=WAIT_S)
        is_first = True
        while not ends.is_set():
            begin_s = time.monotonic()
            try:
                connection.request("GET", "/")
                answers.append(connection.getresponse().read())
            except (OSError, http.client.HTTPException) as error:
                answers.append(repr(error).encode())
                connection.close()
            took_s.append(time.monotonic() - begin_s)
            if is_first:  # before sockets and threads are counted, each client has its own
                connected.wait()
            is_first = False
            time.sleep(0.01)
        connection.close()

    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) as server:
        assert server.stdout is not None
        port = int(server.stdout.readline())
        clients = [threading.Thread(target=ask, args=(port,)) for _ in range(4)]
        try:
            for client in clients:
                client.start()
            connected.wait()
            yield server.pid, answers, took_s
            assert server.poll() is None
        finally:
            ends.set()
            for client in clients:
                client.join()
            server.kill()


def repeat(code: str, times: int, attach: Callable[[int], None], own: bool) -> None:
    """Attach `times` times; the first half may grow caches and the arenas of the allocator."""
    with asked(code) as (pid, answers, took_s):
        sides = [pid, os.getpid()] if own else [pid]
        for number in range(times):
            if number == times // 2:
                before = [held(each) for each in sides]
            attach(pid)
        after = [held(each) for each in sides]
        while len(answers) <= times:
            time.sleep(0.01)
    assert set(answers) == {ANSWER}
    for one, other in zip(before, after, strict=True):
        assert other.threads <= one.threads and other.files <= one.files, (before, after)
        # An allocator's arena or two; a session that stayed would hold a slab of 2 MB each time.
        assert other.memory_kb - one.memory_kb < 8_000 + 100 * (times // 2), (before, after)
    print(
        f"{times} times: {len(answers)} requests, none failed; median {statistics.median(took_s):.4f} s, "
        f"slowest {max(took_s):.3f} s; held {before} and {after}"
    )


@pytest.mark.parametrize("code", [THREADS, ASYNCIO], ids=["threads", "asyncio"])
def test_from_outside(code: str) -> None:
    samples = 0

    def attach(pid: int) -> None:
        nonlocal samples
        found = sample_from_outside(pid, 1000, 0.05)
        assert found.stacks is not None
        samples += int(found.stacks.count.sum())

    repeat(code, round(20 * STRESS), attach, own=True)
    assert samples > 0


@pytest.mark.parametrize("code", [THREADS, ASYNCIO], ids=["threads", "asyncio"])
def test_into_the_process(code: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    folder = tempfile.mkdtemp(prefix="fp")  # the path of a socket has at most 107 bytes
    monkeypatch.setenv("FASTPROF_PROCESS_FOLDER", folder)

    def attach(pid: int) -> None:
        path = tmp_path / "o.fastprof"
        done = python("-m", "fastprof", "attach", pid, "--seconds", 0.05, "-o", path)
        if any(word in done.stderr for word in ("ptrace_scope", "SYS_PTRACE", "seccomp")):
            pytest.skip(f"tracing is not permitted: {done.stderr}")
        assert done.returncode == 0, done.stderr
        fastprof.load(path)
        path.unlink()

    try:
        repeat(code, round(4 * STRESS), attach, own=False)
    finally:
        shutil.rmtree(folder)
