# SPDX-License-Identifier: Apache-2.0
"""Start programs with a flight recorder, and ask about them by the command."""

from __future__ import annotations

import contextlib
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from processes import python

__all__ = ["WAIT_S", "command", "program", "records"]

WAIT_S = 120


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


def records(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.records"))
