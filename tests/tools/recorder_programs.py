# SPDX-License-Identifier: Apache-2.0
"""Start programs with a flight recorder, and ask about them by the command."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from processes import python

WAIT_S = 120
# Steps until the file exists that is its argument; the pid is printed after some.
STEPS = """
import os, sys, time
from fastprof import flight_recorder, record_function
number = 0
while not os.path.exists(sys.argv[1]):
    with record_function("work"):
        time.sleep(0.002)
    flight_recorder.step()
    number += 1
    if number == 100:
        print(os.getpid(), flush=True)
"""


@contextlib.contextmanager
def program(code: str, *args: object) -> Iterator[subprocess.Popen[str]]:
    """A running program that has printed its pid."""
    words = [sys.executable, "-c", code, *map(str, args)]
    with subprocess.Popen(
        words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        try:
            assert process.stdout.readline().strip() == str(process.pid)
            yield process
        finally:
            process.kill()


def command(*words: object) -> str:
    return python("-m", "fastprof", *words, check=True).stdout


def listed() -> list[dict[str, Any]]:
    """What `ps` says of each process, once all have answered: those without a CPU for 1 s are "silent" meanwhile."""
    while True:
        rows = [json.loads(line) for line in command("ps", "--as-json").splitlines()]
        if all(row["state"] != "silent" for row in rows):
            return rows


def records(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.records"))
