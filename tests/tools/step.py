# SPDX-License-Identifier: Apache-2.0
"""Run a command and print what it took: ``step.py NAME [--of N/TOTAL] -- COMMAND [ARGUMENT ...]``.

Prints ``---- NAME`` before, and after, on a line of its own, also if the command fails or is interrupted:

    step compile the C++ tests: 312 s, 598 s CPU, ok

CPU time includes that of all child processes that the command waited for. The exit status is the command's, 127 if it
cannot be started, 128 + N if signal N ended it.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time


def run(name: str, command: list[str], place: str = "") -> int:
    """Run a command on this terminal and print its times; return its exit status. place: such as "2/4"."""
    print(f"---- {name}{f' (step {place})' if place else ''}", flush=True)
    start = time.monotonic()
    try:
        status = subprocess.run(command).returncode
    except OSError as error:
        print(error, file=sys.stderr)
        status = 127
    except KeyboardInterrupt:
        status = 130
    status = 128 - status if status < 0 else status
    wall, times = time.monotonic() - start, os.times()
    cpu = times.children_user + times.children_system
    outcome = f"FAILED ({status})" if status else "ok"
    print(f"step {name}: {wall:.0f} s, {cpu:.0f} s CPU, {outcome}", flush=True)
    return status


def main(arguments: list[str]) -> int:
    """Parse the command line and run the command."""
    end = arguments.index("--") if "--" in arguments else 0
    name, *options = arguments[:end] or [""]
    command = arguments[end + 1 :]
    if not name or not command or options[:1] not in ([], ["--of"]) or len(options) > 2:
        print(__doc__, file=sys.stderr)
        return 2
    return run(name, command, options[1] if options else "")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
