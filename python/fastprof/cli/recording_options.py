# SPDX-License-Identifier: Apache-2.0
"""Options that select what a profile records: of `fastprof run`, `fastprof explain --live` and %%fastprof."""

from __future__ import annotations

import argparse
import errno
import os
import sys
from typing import TYPE_CHECKING, Any

from fastprof.base import errors
from fastprof.base.short_paths import absolute_path
from fastprof.cli.options import check_sample
from fastprof.cli.parser import OldSpelling

if TYPE_CHECKING:
    from fastprof.record.python_calls import CallFilter

__all__ = ["add_recording_options", "memory_hint", "recording_arguments", "recording_options_given"]

_MOST_US = 1e15  # as in CallFilter


def add_recording_options(parser: argparse.ArgumentParser) -> Any:
    """Add the options; return their group."""
    recording = parser.add_argument_group("recording")
    recording.add_argument(
        "--calls",
        action=argparse.BooleanOptionalAction,
        help="record every call of a function (default: all but those of functions that are called very"
        " often, whose calls are summed into their callers); --no-calls: none",
    )
    recording.add_argument(
        "--sample",
        type=float,
        nargs="?",
        const=1000.0,
        default=None,
        metavar="HZ",
        help="sample the Python stacks of all threads HZ times a second (default: 1000; write --sample=HZ); calls are"
        " then recorded only with --calls",
    )
    recording.add_argument(
        "--sample-tasks",
        action="store_true",
        help="also sample where suspended tasks of asyncio and trio wait, at most 50 times a second (implies --sample)",
    )
    recording.add_argument(
        "--min-duration",
        type=float,
        default=0,
        metavar="US",
        help="sum calls shorter than so many microseconds into rows [shorter calls]",
    )
    recording.add_argument(
        "--follow",
        action="store_true",
        help="also record the Python processes that the program starts, and theirs",
    )
    shapes = recording.add_argument(
        "--record-shapes", action="store_true", help="record the shapes of op inputs"
    )
    memory = recording.add_argument(
        "--profile-memory", action="store_true", help="record allocations and frees"
    )
    recording.add_argument(
        "--python-memory",
        action="store_true",
        help="also record what Python's own allocators do, by a sample of the blocks (implies --profile-memory)",
    )
    recording.add_argument(
        "--exact-python-memory",
        action="store_true",
        help="as --python-memory, but record each block: exact sums, and the program runs several times slower",
    )
    stack = recording.add_argument(
        "--with-stack",
        action="store_true",
        help="record the Python stack of each range, and the calls between them (unless --no-calls)",
    )
    recording.add_argument(
        "--native",
        action="store_true",
        help="put the frames of C++ code into the stacks and samples, too (implies --with-stack)",
    )
    recording.add_argument(
        "--with-flops", action="store_true", help="estimate FLOPs of ops with a known formula"
    )
    recording.add_argument(
        "--with-modules",
        action="store_true",
        help="record calls of modules, and the modules that ops run in",
    )
    recording.add_argument(
        "--counter",
        action="append",
        default=[],
        metavar="NAME",
        help="count a perf event in each range, such as instructions or page-faults; up to 4 times",
    )
    records = recording.add_argument(
        "--max-records-mb",
        type=int,
        default=0,
        metavar="MB",
        help="memory limit for records (default: 0, automatic)",
    )
    recording.add_argument(
        "--overflow",
        choices=("drop_newest", "overwrite_oldest", "spill"),
        default="drop_newest",
        help="at the memory limit: drop new records (default), overwrite old ones, or move records to a"
        " file; the number of dropped records is printed",
    )
    recording.add_argument(
        "--spill-folder",
        metavar="DIR",
        help="folder for the file of --overflow spill (default: the folder for temporary files)",
    )
    recording.add_argument(
        "--backing-file",
        metavar="FILE",
        help="record into a new file, from which `fastprof recover FILE` makes the trace if the process is killed;"
        " removed once the results are written",
    )
    for old, now in (
        ("--shapes", shapes),
        ("--memory", memory),
        ("--stack", stack),
        ("--max-mb", records),
    ):
        recording.add_argument(old, action=OldSpelling, now=now)
    return recording


def recording_options_given(
    options: argparse.Namespace, parser: argparse.ArgumentParser | None = None
) -> list[str]:
    """Return the options of a parser whose value is not their default; without one, the recording options."""
    if parser is None:
        parser = argparse.ArgumentParser(add_help=False)
        add_recording_options(parser)
    return [
        action.option_strings[0]
        for action in parser._actions  # no public list of actions
        if action.help != argparse.SUPPRESS
        and getattr(options, action.dest, action.default) != action.default
    ]


def recording_arguments(
    options: argparse.Namespace, *, calls_by_default: bool = False
) -> dict[str, Any]:
    """Return the options as arguments of profile(), without all_threads.

    calls_by_default: without --calls, --no-calls or --with-stack, record calls with a bound on their number.
    Raises errors.ValueError if an option is invalid or contradicts another, errors.IoError if the backing file exists.
    """
    if options.sample_tasks and options.sample is None:
        options.sample = 1000.0
    check_sample(options.sample)
    if not 0 <= options.min_duration < _MOST_US:
        raise errors.ValueError(
            f"invalid --min-duration {options.min_duration:g}. Use a number of microseconds, 0 or more."
        )
    if options.max_records_mb < 0:
        raise errors.ValueError(
            f"invalid --max-records-mb {options.max_records_mb}. Use 0 (automatic) or a number of megabytes."
        )
    file = None if options.backing_file is None else absolute_path(options.backing_file)
    if file is not None and os.path.lexists(file):
        raise errors.IoError(
            errno.EEXIST,
            f"cannot record into {file}: the file exists. If a program was killed that recorded into it, read it with"
            " `fastprof recover`; then remove it, or choose another name.",
        )
    python_memory = "exact" if options.exact_python_memory else options.python_memory
    return {
        "record_shapes": options.record_shapes,
        "profile_memory": options.profile_memory or bool(python_memory),
        "python_memory": python_memory,
        "with_stack": options.with_stack,
        "native": options.native,
        "with_flops": options.with_flops,
        "with_modules": options.with_modules,
        "max_bytes": options.max_records_mb << 20,
        "overflow": options.overflow,
        "spill_folder": options.spill_folder,
        "backing_file": file,  # absolute: the program may change its folder
        "counters": options.counter,
        "python_calls": _calls(options, calls_by_default),
        "follow_children": options.follow,
        "sample_hz": options.sample,
        "sample_tasks": options.sample_tasks,
    }


def memory_hint(options: argparse.Namespace, table: Any) -> str:
    """Return a line on what to do if --profile-memory was given and the table contains no memory; else ""."""
    from fastprof.model.memory_rows import failed_requests, memory_rows

    python = options.python_memory or options.exact_python_memory
    if not options.profile_memory or python or memory_rows(table) or failed_requests(table):
        return ""
    return (
        "fastprof: --profile-memory recorded nothing: it records what PyTorch and annotated C++ code allocate. "
        "For the memory of Python's objects, use --python-memory."
    )


def _calls(options: argparse.Namespace, by_default: bool) -> bool | CallFilter | None:
    """Return the value of profile(python_calls=...): which calls are recorded."""
    calls: bool | None = options.calls
    with_stack = options.with_stack or options.native
    if options.sample is not None and calls is None:
        calls = False
    bounded = by_default and calls is None and not with_stack
    traced = bool(calls) or (calls is None and (with_stack or bounded))
    if options.min_duration and not traced:
        raise errors.ValueError(
            "--min-duration applies to calls, and none are recorded. Add --calls."
        )
    own = _own_start() if traced else ()
    if not (bounded or own or options.min_duration):
        return calls
    from fastprof.record.python_calls import CallFilter

    return CallFilter(exclude_files=own, min_duration_us=options.min_duration, sum_frequent=bounded)


def _own_start() -> tuple[str, ...]:
    """Return the files whose code started the command `fastprof`; () in a notebook."""
    script = absolute_path(sys.argv[0])
    names = (os.path.basename(script), os.path.basename(os.path.dirname(script)))
    if names[0].startswith("fastprof") or names == ("__main__.py", "fastprof"):
        return (script, "<frozen runpy>")
    return ()
