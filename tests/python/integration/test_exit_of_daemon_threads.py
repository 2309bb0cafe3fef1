# SPDX-License-Identifier: Apache-2.0
"""The interpreter ends while daemon threads are inside calls of fastprof: its exit code is unchanged."""

from __future__ import annotations

from pathlib import Path

import pytest
from processes import python

PROGRAM = """
import asyncio, sys, threading, time
import fastprof

path = sys.argv[1]
with fastprof.profile() as done:
    for i in range(20000):
        with fastprof.record_function("d"):
            pass
done.export_chrome_trace(path)

@fastprof.record_function("decorated")
def decorated():
    for _ in range(10000): pass

async def pauses():
    for _ in range(50): await asyncio.sleep(0)

def record(**options):
    with fastprof.profile(**options): decorated()

started = threading.Barrier(5)
def repeat():
    started.wait()
    while True: {call}

with fastprof.profile(tasks=True):
    for _ in range(4): threading.Thread(target=repeat, daemon=True).start()
    started.wait()
    time.sleep(0.1)
    sys.exit(3)
"""


@pytest.mark.parametrize(
    "call",
    [
        "record()",
        "record(python_calls=True, with_stack=True)",
        "done.export_chrome_trace(path + threading.current_thread().name + '.json')",
        "fastprof.load(path)",
        "fastprof.propagate(decorated)()",
        "asyncio.run(pauses())",
    ],
)
def test_exit_code(call: str, tmp_path: Path) -> None:
    result = python("-c", PROGRAM.replace("{call}", call), tmp_path / "trace.json")
    assert result.returncode == 3, result.stderr
    assert "terminate called" not in result.stderr
