# SPDX-License-Identifier: Apache-2.0
"""fastprof live: show what a running process does, twice a second."""

from __future__ import annotations

import argparse
import contextlib
import importlib.util
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING

from fastprof.base import errors
from fastprof.cli.ask import PROCESSES, choose, command_of, find_alive
from fastprof.cli.options import Subparsers, command_parser

if TYPE_CHECKING:
    from fastprof.flight_recorder.live_view import LiveReader

__all__ = ["add_parser"]

_EPILOG = f"""\
TARGET is {PROCESSES}, with a flight recorder (fastprof ps
--help); or a script, with its arguments, which is started with one. Its output goes to a file meanwhile, and is
printed at the end; leaving the screen ends it, as Ctrl-C does.

Everything is read from the recorder's file: nothing of the process runs for it. Shares are of the time that is
shown. A range that began before, in memory that other records have filled since, is not seen.

Keys: t: threads or names; d: write a dump into this folder; q or Ctrl-C: leave. The screen needs the package textual
(pip install "fastprof[live]"); --as-json and --once do not.

examples:
  fastprof live 4711
  fastprof live train.py --epochs 3
  fastprof live --as-json 4711 | jq .steps_per_s
"""

_START_LIMIT_S = 60.0


def add_parser(commands: Subparsers) -> None:
    """Add the subcommand's parser."""
    parser = command_parser(commands, "live", "show what a running process does", _EPILOG)
    parser.add_argument(
        "--seconds",
        type=float,
        default=2.0,
        metavar="N",
        help="show the last so many seconds (default: %(default)g)",
    )
    parser.add_argument(
        "--interval", type=float, default=0.5, metavar="N", help="seconds from look to look (0.5)"
    )
    parser.add_argument("--as-json", action="store_true", help="one JSON object a line")
    parser.add_argument("--once", action="store_true", help="print one view, and end")
    parser.add_argument("target", metavar="TARGET")
    parser.add_argument("arguments", nargs=argparse.REMAINDER, help=argparse.SUPPRESS)
    parser.set_defaults(command=live)


def live(options: argparse.Namespace) -> int:
    """Show views until the process has ended; return the exit code."""
    for name in ("seconds", "interval"):
        if not 0.05 <= getattr(options, name) <= 3600:
            raise errors.ValueError(
                f"invalid --{name} {getattr(options, name):g}. Use 0.05 to 3600 seconds."
            )
    is_script = os.path.isfile(options.target)
    if options.arguments and not is_script:
        raise errors.ValueError(
            f"{options.target!r} is no script, so it takes no arguments: {' '.join(options.arguments)}."
            " Options of this command stand before the process."
        )
    if not (options.as_json or options.once):
        _check_screen()
    with contextlib.ExitStack() as stack:
        pid = options.target
        if is_script:
            started = stack.enter_context(_started([options.target, *options.arguments]))
            pid = str(started.pid)
        has_ended = _show(options, pid, os.path.basename(options.target) if is_script else "")
        if is_script and has_ended:
            started.wait()  # the recording ends before the interpreter does
    return 0


def _show(options: argparse.Namespace, wanted: str, program: str) -> bool:
    """Show views, until one is enough; return whether the recording has ended."""
    from fastprof.flight_recorder.live_view import LiveReader

    process = choose(wanted)[0]
    reader = LiveReader(process, options.seconds)
    program = program or command_of(process.pid)
    if not (options.as_json or options.once):
        _show_screen(reader, program, options.interval)
        return False
    if options.once:  # a first look, so that there is a share of the CPU
        reader.look()
        time.sleep(options.interval)
    while True:
        try:
            view = reader.look()
        except errors.IoError:  # an orderly end removes the file
            return True
        if options.as_json:
            print(json.dumps(view.as_dict()), flush=True)
        else:
            from fastprof.cli.live_text import live_lines
            from fastprof.cli.screen import Screen

            screen = Screen.of(sys.stdout)
            lines = live_lines(view, program, width=screen.width_or_default, height=60)
            print("\n".join(line.rstrip() for line in lines))
        if options.once or not view.alive:
            return not view.alive
        time.sleep(options.interval)


def _show_screen(reader: LiveReader, program: str, interval_s: float) -> None:
    """Show the screen. Its first view is written before textual is imported, which takes longer than the rest."""
    from fastprof.cli.live_text import live_lines

    size = shutil.get_terminal_size()
    lines = live_lines(reader.look(), program, width=size.columns, height=max(size.lines - 2, 5))
    # The alternate screen, which textual uses, too, and leaves at its end.
    sys.stdout.write("\x1b[?1049h\x1b[2J\x1b[H" + "\r\n".join(lines[: size.lines - 1]))
    sys.stdout.flush()
    try:
        try:
            from fastprof.cli.live_screen import LiveScreen
        except ImportError as error:
            raise errors.UnavailableError(
                f"textual cannot be imported ({error}): use --as-json or --once"
            ) from None
        LiveScreen(reader, program, interval_s).run()
    finally:
        sys.stdout.write("\x1b[?1049l")
        sys.stdout.flush()


def _check_screen() -> None:
    if not sys.stdout.isatty():
        raise errors.UnavailableError(
            "a live screen needs a terminal: use --as-json, or --once for one view"
        )
    if importlib.util.find_spec("textual") is None:
        raise errors.UnavailableError(
            'a live screen needs the package textual: pip install "fastprof[live]"; --as-json and --once do not'
        )


@contextlib.contextmanager
def _started(words: list[str]) -> Iterator[subprocess.Popen[bytes]]:
    """Run a script with a flight recorder until the end of the block; print its output then."""
    with tempfile.TemporaryFile() as output:
        command = [sys.executable, "-m", "fastprof", "run", "--flight-recorder", "--sample=100"]
        command += words
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=output)
        try:
            _wait_for_recorder(process)
            yield process
        finally:
            if process.poll() is None:
                process.send_signal(signal.SIGINT)
            try:
                status = process.wait(30)
            except subprocess.TimeoutExpired:
                process.kill()
                status = process.wait()
            output.seek(0)
            text = output.read().decode("utf-8", "replace")
            print(text, end="", file=sys.stderr)
            print(f"{words[0]} ended with status {status}", file=sys.stderr)


def _wait_for_recorder(process: subprocess.Popen[bytes]) -> None:
    limit_s = time.monotonic() + _START_LIMIT_S
    while True:
        found = find_alive(process.pid)
        if found is not None and found.records:
            return
        if process.poll() is not None or time.monotonic() > limit_s:
            raise errors.UnavailableError(
                "the program ended before it could be shown; `fastprof run` shows all of a short one"
            )
        time.sleep(0.02)
