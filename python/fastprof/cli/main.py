# SPDX-License-Identifier: Apache-2.0
"""main: entry point of the fastprof command and of `python -m fastprof`."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from importlib import import_module
from typing import Any

from fastprof import __version__
from fastprof.base import errors
from fastprof.cli.config import QUERIES, answer
from fastprof.cli.huge_pages import is_whole_program, restart_with_huge_pages
from fastprof.cli.parser import CommandParser
from fastprof.cli.program_call import ProgramCall, find_program

__all__ = ["main"]

# Modules of the subcommands, in the order of the help text.
COMMANDS = (
    *("run", "report", "explain", "recover", "diff", "convert", "merge", "ranks"),
    *("ps", "live", "dump", "profile", "attach", "config", "doctor"),
)
USAGE_ERROR = 2

_EXAMPLES = """\
examples:
  fastprof run train.py --epochs 3        profile a script, print a table, write train.trace.json
  fastprof run -o out.pftrace -m pkg.mod  profile a module, write a trace for ui.perfetto.dev
  fastprof report train.trace.json        print the table of a trace (also of PyTorch's traces)
  fastprof explain train.trace.json       say where the time of a step went, what to do first
  fastprof explain --live train.py        run a script, then say that of it
  fastprof recover records                print what a killed process had recorded
  fastprof diff before.json after.json    compare two traces by name: what became slower
  fastprof convert a.json a.fastprof      convert a trace to another format
  fastprof merge r0.json r1.json -o all.json
                                          put the traces of several processes on one timeline
  fastprof ranks FOLDER                   say which rank of a job is slow, and where its time went
  fastprof ps                             list running programs that have a flight recorder
  fastprof live 4711                      show what one does, twice a second
  fastprof dump 4711                      write the last seconds of one, also if it hangs or was killed
  fastprof profile 4711 --seconds 5       profile it from now on
  fastprof attach 4712                    profile any Python process, also without fastprof
  fastprof config --includes              print what builds of C++ programs need
  fastprof doctor                         list the features available here, with reasons for the rest
  fastprof doctor train.trace.json        say what is wrong with the times and links of a trace

`fastprof COMMAND --help` describes a command and shows more examples.
"""


def make_parser(prog: str, only: str | None = None) -> CommandParser:
    """Return the parser of the whole command line. only: of this subcommand alone, whose module is then imported."""
    parser = CommandParser(
        prog=prog,
        description="fastprof: a standalone profiler for Python and C++.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"fastprof {__version__}")
    for flag, _, _ in QUERIES:  # as they were spelled before `fastprof config`
        parser.add_argument(flag, action="store_true", help=argparse.SUPPRESS)
    commands = parser.add_subparsers(title="commands", metavar="COMMAND")
    for name in COMMANDS if only is None else (only,):
        import_module(f"fastprof.cli.{name}").add_parser(commands)
    return parser


def split_program(
    parser: argparse.ArgumentParser, given: Sequence[str]
) -> tuple[list[str], ProgramCall | None]:
    """Return (arguments for fastprof, the program of `run` or `explain --live` with its arguments).

    The split precedes argparse, which would parse options after the script's name as fastprof's.
    """
    at = next((i for i, word in enumerate(given) if not word.startswith("-")), None)
    if at is None or given[at] not in ("run", "explain"):
        return list(given), None
    commands = next(a for a in parser._actions if isinstance(a, argparse._SubParsersAction))
    chosen = commands.choices[given[at]]
    count, program = find_program(chosen._option_string_actions, given[at + 1 :])
    if given[at] == "explain" and "--live" not in given[at + 1 : at + 1 + count]:
        return list(given), None  # explains a file
    return list(given[: at + 1 + count]), program


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line `argv` (default: sys.argv[1:]) and return the exit code.

    2 for wrong usage and for files that cannot be read or written, 1 if stdout cannot be written. Exceptions
    of a profiled program propagate.
    """
    started_as = os.path.basename(sys.argv[0])
    prog = "python -m fastprof" if started_as == "__main__.py" else "fastprof"
    given = list(sys.argv[1:] if argv is None else argv)
    if given[:1] == ["dump"] and is_whole_program(given):
        restart_with_huge_pages()
    parser = make_parser(prog, given[0] if given and given[0] in COMMANDS else None)
    own, program = split_program(parser, given)
    options = parser.parse_args(own)
    if program is not None:
        options.program = program
    # A program's own output must be as without a profile.
    with _stdout_of_commands() if program is None else nullcontext():
        return _run(options, parser, program is not None)


@contextmanager
def _stdout_of_commands() -> Iterator[None]:
    """Print names that the encoding of stdout does not have as backslash escapes, as stderr does; then as before.

    A closed stdout refuses what is printed when it is flushed, as a full disk does.
    """
    given = sys.stdout
    if given is None:
        sys.stdout = os.fdopen(os.open(os.devnull, os.O_RDONLY), "w", encoding="utf-8")
    stream: Any = sys.stdout
    before = getattr(stream, "errors", None)
    # Other handlers than the defaults were chosen by the user (PYTHONIOENCODING), and do not raise.
    changes = before in ("strict", "surrogateescape") and hasattr(stream, "reconfigure")
    if changes:
        stream.reconfigure(errors="backslashreplace")
    try:
        yield
    finally:
        with suppress(OSError, ValueError):  # it was closed, or cannot be flushed
            if given is None:
                sys.stdout = given
                stream.close()
            elif changes:
                stream.reconfigure(errors=before)


def _run(options: argparse.Namespace, parser: CommandParser, has_program: bool) -> int:
    """Run the command of parsed options; return the exit code."""
    prog = parser.prog
    if "command" not in options:
        if flags := answer(options):
            print(f"fastprof: now spelled {prog} config {' '.join(flags)}", file=sys.stderr)
        else:
            parser.print_help()
        return 0
    try:
        code: int = options.command(options)
        # After a program, the interpreter does this, and reports what fails as without a profile.
        if not has_program:
            sys.stdout.flush()
    except errors.Error as error:
        if _is_programs(error):
            raise
        message = error.strerror if isinstance(error, OSError) else None
        print(f"{prog}: error: {message or error}", file=sys.stderr)
        return USAGE_ERROR
    except OSError as error:
        # Of files, commands raise errors.IoError: this one is of stdout, which has no name.
        if has_program or error.filename is not None:
            raise
        # Redirect, or the interpreter would report an error at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if not isinstance(error, BrokenPipeError):  # else the pipe's reader has exited
            print(f"{prog}: error: cannot write to stdout: {error.strerror}", file=sys.stderr)
        return 1
    return code


def _is_programs(error: BaseException) -> bool:
    from fastprof.cli.script import ends_program

    return ends_program(error)
