# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: E501 (programs of one line)
"""A server under `fastprof run` that is stopped by a signal ends as under plain Python, and keeps what was recorded."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

LIMIT_S = 300  # a hang, on a machine under any load
SERVE = """
import asyncio, http.server, os, signal, sys, threading, urllib.request
async def answer(reader, writer):
    writer.write(await reader.readline()); await writer.drain(); writer.close()
async def listen():
    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
    writer.write(b"asked\\n"); print((await reader.readline()).decode(), end=""); writer.close()
    print("ready", flush=True)
    return server
"""
SERVERS = {
    "asyncio": "async def main(): await (await listen()).serve_forever()\ntry: asyncio.run(main())\nfinally: print('closed')",
    "asyncio with handlers": "async def main():\n    stop = asyncio.Event()\n"
    "    for number in (2, 15): asyncio.get_running_loop().add_signal_handler(number, stop.set)\n"
    "    server = await listen(); await stop.wait(); server.close(); print('stopped')\nasyncio.run(main())",
    # As uvicorn: stops at the signal, restores the handlers, and raises the signal again.
    "asyncio, signal raised again": "async def main():\n    stop = asyncio.Event(); loop = asyncio.get_running_loop(); got = []\n"
    "    def stopped(n, frame): got.append(n); loop.call_soon_threadsafe(stop.set)\n"
    "    before = {n: signal.signal(n, stopped) for n in (2, 15)}\n"
    "    server = await listen(); await stop.wait(); server.close(); print('stopped', flush=True)\n"
    "    for n in before: signal.signal(n, before[n])\n"
    "    signal.raise_signal(got[0])\nasyncio.run(main())",
    "http.server with threads": "server = http.server.ThreadingHTTPServer(('127.0.0.1', 0), http.server.SimpleHTTPRequestHandler)\n"
    "def ask():\n    urllib.request.urlopen(f'http://127.0.0.1:{server.server_port}').read(); print('ready', flush=True)\n"
    "threading.Thread(target=ask).start()\ntry: server.serve_forever()\nfinally: print('closed')",
    # As gunicorn: a parent that passes the signal to the processes that it forked, and waits for them.
    "forked workers": "pids = []\nfor n in range(2):\n    pids.append(os.fork())\n    if pids[-1] == 0: signal.pause(); os._exit(9)\n"
    "def stop(n, frame):\n    for pid in pids: os.kill(pid, 15)\n"
    "    print([os.waitpid(pid, 0)[1] for pid in pids]); sys.exit(0)\n"
    "signal.signal(2, stop); signal.signal(15, stop); print('ready', flush=True)\nwhile True: signal.pause()",
    "thread that waits": "event = threading.Event(); t = threading.Thread(target=event.wait); t.start()\n"
    "try: print('ready', flush=True); t.join()\nfinally: event.set(); print('closed')",
}  # fmt: skip
UNDER = (("plain", ()), ("profiled", ("-m", "fastprof", "run", "--no-trace")))


@pytest.mark.usefixtures("sigint")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("name", SERVERS)
def test_a_server_ends_as_without_a_profile(
    tmp_path: Path, name: str, number: signal.Signals
) -> None:
    (tmp_path / "p.py").write_text(SERVE + SERVERS[name] + "\n")
    ended = []
    for kind, words in UNDER:
        with (
            open(tmp_path / kind, "w") as errors,
            subprocess.Popen(
                [sys.executable, *words, "p.py"], cwd=tmp_path, stdout=subprocess.PIPE, stderr=errors, text=True
            ) as server,
        ):  # fmt: skip
            assert server.stdout is not None
            output = ""
            while not output.endswith("ready\n"):
                line = server.stdout.readline()
                assert line, (tmp_path / kind).read_text()
                output += line
            server.send_signal(number)
            try:
                output += server.communicate(timeout=LIMIT_S)[0]
            finally:
                server.kill()
        ended.append((server.returncode, output))
    said = (tmp_path / "profiled").read_text()
    assert ended[1] == ended[0] and "calls" in said, said  # what was recorded is kept
