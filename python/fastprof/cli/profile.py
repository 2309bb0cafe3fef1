# SPDX-License-Identifier: Apache-2.0
"""fastprof profile, start and stop: a profile of a process that runs already."""

from __future__ import annotations

import argparse
import os
import sys
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import nullcontext
from typing import Any

from fastprof.base import errors
from fastprof.base.formatting import counted
from fastprof.cli.ask import PROCESSES, ask, choose, default_stem
from fastprof.cli.formats import FORMATS, default_trace, format_help, format_of
from fastprof.cli.options import Subparsers, check_sample, check_seconds, command_parser
from fastprof.cli.outcome import patient_with_ctrl_c, print_message

__all__ = [
    "INTERRUPTED",
    "add_output_options",
    "add_parser",
    "add_profile_options",
    "output_path",
    "print_written",
    "profile_options",
    "wait_for_profiles",
]

INTERRUPTED = 130  # exit status, as of shells

_PROCESS = f"""\
PROCESS is {PROCESSES}; with --group, of any number of processes. They must have a flight recorder
(fastprof ps --help), belong to the same user and let Python run."""
_EPILOG = f"""\
{_PROCESS}
The process writes its trace itself, into the folder of PATH.
A configuration of Kineto (PROFILE_START_TIME=..., ACTIVITIES_DURATION_MSECS=..., a line each, as dynolog sends it) says
when, how long, what and where; -o and the options here take precedence.

examples:
  fastprof profile 4711 --seconds 5
  fastprof profile train.py --steps 3 --record-shapes -o steps.pftrace
  fastprof profile --group train.py --steps 2 -o ranks.json
  fastprof profile --group train.py --kineto-config on_demand.conf
  fastprof start 4711 --calls ; fastprof stop 4711 -o calls.html

{format_help()}"""

# Option of the command -> option of profile().
_OPTIONS = {
    "record-shapes": ("record_shapes", "record the shapes of op inputs"),
    "profile-memory": ("profile_memory", "record allocations and frees"),
    "python-memory": ("python_memory", "also a sample of what Python's own allocators do"),
    "with-stack": ("with_stack", "record the Python stack of each range and op"),
    "with-modules": ("with_modules", "record calls of torch.nn.Module objects"),
    "calls": ("python_calls", "record every call of a function"),
    "native": ("native", "record frames of compiled code in stacks"),
    "follow": ("follow_children", "also record the Python processes that start meanwhile"),
}


def add_parser(commands: Subparsers) -> None:
    """Add the parsers of the three subcommands."""
    whole = command_parser(commands, "profile", "profile a running process for a while", _EPILOG)
    length = whole.add_mutually_exclusive_group(required=True)
    length.add_argument("--seconds", type=float, metavar="N", help="for so long")
    length.add_argument(
        "--steps", type=int, metavar="N", help="for so many steps, from the next on"
    )
    length.add_argument(
        "--kineto-config", metavar="FILE", help="as a file of Kineto's on-demand keys says"
    )
    start = command_parser(commands, "start", "begin a profile of a running process", _EPILOG)
    stop = command_parser(commands, "stop", "end what `fastprof start` began", _EPILOG)
    for parser, command in ((whole, profile), (start, begin), (stop, end)):
        parser.add_argument("process", metavar="PROCESS")
        parser.add_argument(
            "--group",
            action="store_true",
            help="all processes whose command line has PROCESS in it",
        )
        parser.set_defaults(command=command)
    for parser in (whole, stop):
        add_output_options(parser)
    for parser in (whole, start):
        add_profile_options(parser)


def add_output_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of the trace's file."""
    parser.add_argument(
        "-o",
        "--output",
        metavar="PATH",
        help="file of the trace (default: NAME-PID.trace.json, or the suffix of --to); with --group, the pid is added",
    )
    parser.add_argument(
        "--to", choices=tuple(FORMATS), metavar="FORMAT", help="its format, whatever the suffix"
    )


def add_profile_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of what is recorded."""
    parser.add_argument(
        "--sample",
        type=float,
        nargs="?",
        const=1000.0,
        metavar="HZ",
        help="sample the Python stacks of all threads HZ times a second (1000; write --sample=HZ)",
    )
    for name, (_, text) in _OPTIONS.items():
        parser.add_argument(f"--{name}", action="store_true", help=text)


def profile(options: argparse.Namespace) -> int:
    """Profile for some seconds or steps; return the exit code."""
    if options.kineto_config is not None:
        return _profile_as_kineto(options)
    request = {"do": "profile", "options": profile_options(options)}
    length = "seconds" if options.seconds is not None else "steps"
    if options.seconds is not None:
        check_seconds(options.seconds)
    return _ask_all(options, {**request, length: getattr(options, length)}, None)


def _profile_as_kineto(options: argparse.Namespace) -> int:
    from fastprof.cli.kineto_config import read_kineto_config

    found = read_kineto_config(options.kineto_config)
    for line in found.left_out:
        print(f"fastprof: {line}", file=sys.stderr)
    wanted = {**found.options, **profile_options(options)}
    request = {"do": "profile", "options": wanted, **found.request}
    named = found.path_of if options.output is None else None
    return _ask_all(options, request, None, named)


def begin(options: argparse.Namespace) -> int:
    """Start a profile; return the exit code."""
    for process in choose(options.process, several=options.group):
        ask(process, {"do": "start", "options": profile_options(options)})
        print(f"process {process.pid}: profiling; end it with: fastprof stop {process.pid}")
    return 0


def end(options: argparse.Namespace) -> int:
    """End a profile and write its trace; return the exit code."""
    return _ask_all(options, {"do": "stop"}, 600.0)


def profile_options(options: argparse.Namespace) -> dict[str, bool | float]:
    """Return the options of profile() that the command's options select."""
    chosen = {name.replace("-", "_"): option for name, (option, _) in _OPTIONS.items()}
    found: dict[str, bool | float] = {
        option: True for name, option in chosen.items() if getattr(options, name)
    }
    check_sample(options.sample)
    if options.sample is not None:
        found["sample_hz"] = options.sample
    return found


def _ask_all(
    options: argparse.Namespace,
    request: dict[str, Any],
    timeout_s: float | None,
    named: Callable[[int], str | None] | None = None,
) -> int:
    """Ask each process at the same time, and print what each wrote. named: returns the path for a pid, or None."""
    processes = choose(options.process, several=options.group)
    paths = [
        (named and named(process.pid)) or output_path(options, process.pid, options.group)
        for process in processes
    ]
    waits_s = timeout_s or 600.0 + float(request.get("seconds") or 3600.0)
    waits_s += max(0.0, float(request.get("start_unix_s") or 0.0) - time.time())

    def one(process: Any, path: str) -> dict[str, Any]:
        return ask(process, {**request, "path": path, "format": options.to}, waits_s)

    def all_written() -> int:
        failed = 0
        answers = [_on_thread(one, *each) for each in zip(processes, paths, strict=True)]
        for answer in answers:
            try:
                facts = answer.result()
            except (errors.UnavailableError, errors.IoError) as error:
                if len(processes) == 1:
                    raise
                print(f"fastprof: {error}")
                failed = 1
            else:
                print_written(facts)
        return failed

    return wait_for_profiles(processes, all_written, can_end="seconds" in request)


def wait_for_profiles(
    processes: Sequence[Any], wait: Callable[[], int], *, can_end: bool = True
) -> int:
    """Return the exit code that wait() returns, or INTERRUPTED after Ctrl-C.

    can_end: the first Ctrl-C ends the recordings, which is possible for those of seconds, and the waiting goes on.
    """
    interrupted = False

    def end() -> None:
        nonlocal interrupted
        interrupted = True
        for process in processes:
            try:
                ask(process, {"do": "end"}, 5.0)
            except errors.UnavailableError as error:
                print_message(f"fastprof: {error}")

    try:
        with patient_with_ctrl_c("ending the recording", end) if can_end else nullcontext():
            failed = wait()
    except KeyboardInterrupt:
        pids = ", ".join(str(process.pid) for process in processes)
        goes_on = "process {} goes on" if len(processes) == 1 else "processes {} go on"
        print_message(
            f"fastprof: interrupted; {goes_on.format(pids)}, and the trace is still written"
        )
        return INTERRUPTED
    return INTERRUPTED if interrupted else failed


def _on_thread(call: Callable[..., dict[str, Any]], *args: Any) -> Future[dict[str, Any]]:
    """Call on a daemon thread: the command ends at Ctrl-C, and those of an executor would be waited for."""
    future: Future[dict[str, Any]] = Future()

    def run() -> None:
        try:
            future.set_result(call(*args))
        except BaseException as error:
            future.set_exception(error)

    threading.Thread(target=run, daemon=True).start()
    return future


def print_written(facts: dict[str, Any]) -> None:
    """Print what a process answered that has written a profile."""
    print(f"wrote {facts['path']}: {counted(facts['rows'], 'row')}")
    for what, reason in facts["missing"].items():
        print(f"Not recorded: {what}: {reason}")


def output_path(options: argparse.Namespace, pid: int, several: bool) -> str:
    """Return the absolute path of the trace of a process. Raises errors.ValueError for an unknown suffix."""
    if options.output is None:
        return os.path.abspath(default_trace(default_stem(pid), options.to))
    path: str = os.path.abspath(options.output)
    format_of(path, options.to)
    if not several:
        return path
    folder, name = os.path.split(path)
    stem, dot, suffixes = name.partition(".")
    return os.path.join(folder, f"{stem}-{pid}{dot}{suffixes}")
