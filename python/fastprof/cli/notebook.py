# SPDX-License-Identifier: Apache-2.0
"""The magics %fastprof and %%fastprof of IPython and notebooks, loaded by `%load_ext fastprof`.

    %%fastprof --calls --as prof
    train()

runs the cell in the user's namespace under a profile and shows the HTML report in the cell's output; a front end that
shows only text prints the table. Options have the names of `fastprof run`. IPython is imported only when it loads the
extension.
"""

from __future__ import annotations

import argparse
import keyword
import sys
import warnings
from typing import Any, NoReturn

from fastprof.base import errors
from fastprof.base.atomic_file import check_output
from fastprof.base.visible_text import shortened, visible_text
from fastprof.cli.cell_code import CellCode
from fastprof.cli.magic_line import split_magic_line
from fastprof.cli.options import add_table_options, check_table_options, table_text
from fastprof.cli.parser import CommandParser
from fastprof.cli.recording_options import add_recording_options, recording_arguments
from fastprof.cli.screen import Screen

__all__ = ["load_ipython_extension", "make_parser", "unload_ipython_extension"]

LAST = "_fastprof"  # name of the user's variable that contains the last profile
MIN_HEIGHT = 100  # of the report, in pixels

_EPILOG = """\
%fastprof [options] STATEMENT     profiles one line
%%fastprof [options]              profiles the cell below

What the cell does is recorded, with the threads and tasks that it starts; --all-threads adds the rest of the process.
Options end at the first word that is not one, or at --. Errors of the cell are shown after the report.

examples:
  %%fastprof --calls
  %%fastprof --with-stack --profile-memory --as prof
  %fastprof --html fit.html model.fit(x, y)
"""


class _HelpPrinted(Exception):
    """Raised where argparse would exit with code 0: it has printed the help text."""


class _MagicParser(CommandParser):
    """A parser that raises errors.ValueError with the message instead of ending the process."""

    def exit(self, status: int = 0, message: str | None = None) -> NoReturn:
        if status == 0:
            raise _HelpPrinted
        raise errors.ValueError((message or "").strip().removeprefix(f"{self.prog}: error: "))

    def print_usage(self, file: Any = None) -> None:
        """Print nothing: the message says what to do, and --help shows the rest."""


def make_parser() -> CommandParser:
    """Return the parser of the options of the magics."""
    parser = _MagicParser(
        prog="%fastprof",
        usage="%%fastprof [options] STATEMENT  or  %%%%fastprof [options]",
        description="Profile a statement or a cell, and show the report.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--as",
        dest="name",
        metavar="NAME",
        help=f"leave the profile in a variable (also in {LAST})",
    )
    parser.add_argument("--html", metavar="FILE", help="also write the report to a file")
    parser.add_argument(
        "--height", type=int, default=600, metavar="PX", help="height of the report (%(default)s)"
    )
    parser.add_argument(
        "--table", action="store_true", help="show the table of averages instead of the report"
    )
    parser.add_argument(
        "--no-source", action="store_true", help="leave the text of source files out of the report"
    )
    recording = add_recording_options(parser)
    recording.add_argument(
        "--all-threads",
        action="store_true",
        help="record what all threads do, not only the cell and the work that it starts",
    )
    add_table_options(parser)
    return parser


def load_ipython_extension(shell: Any) -> None:
    """Register %fastprof and %%fastprof with an IPython shell, for `%load_ext fastprof`. Call on the shell's thread."""

    def fastprof(line: str, cell: str | None = None, local_ns: Any = None) -> None:
        _magic(shell, line, cell, local_ns)

    fastprof.__doc__ = make_parser().format_help()
    fastprof.needs_local_scope = True  # type: ignore[attr-defined]
    shell.register_magic_function(fastprof, magic_kind="line_cell", magic_name="fastprof")


def unload_ipython_extension(shell: Any) -> None:
    """Remove the magics, for `%unload_ext fastprof`. Call on the shell's thread."""
    for magics in shell.magics_manager.magics.values():
        magics.pop("fastprof", None)


def _magic(shell: Any, line: str, cell: str | None, local_ns: Any) -> None:
    from IPython.core.error import UsageError

    from fastprof import profile

    try:
        parser = make_parser()
        words, statement = split_magic_line(line, parser._option_string_actions)
        options = parser.parse_args(words)
        source = _source(statement, cell)
        _check(options)
        profiler = profile(**recording_arguments(options), all_threads=options.all_threads)
        code = CellCode(shell, source)
    except _HelpPrinted:
        return
    except errors.Error as error:
        raise UsageError(str(error)) from None
    profiler._averages_calls = bool(options.calls)
    label = f"In [{_number(shell)}]" if cell is not None else shortened(source, 200)
    raised = True
    try:
        code.run_under(profiler, label, local_ns)
        raised = False
    finally:
        if profiler._results:
            shell.push({LAST: profiler}, interactive=False)
            if options.name:
                shell.push({options.name: profiler})
            _show_or_warn(profiler, options, label, raised)


def _number(shell: Any) -> int:
    """Return the number of the running cell; IPython 9 counts execution_count up before it runs the cell."""
    hook = getattr(shell, "displayhook", None)
    return int(getattr(hook, "prompt_count", shell.execution_count))


def _source(statement: str, cell: str | None) -> str:
    if cell is None:
        if not statement:
            raise errors.ValueError(
                "no statement to profile. Write %fastprof STATEMENT, or %%fastprof above a cell."
            )
        return statement
    if statement:
        raise errors.ValueError(
            f"unexpected text {shortened(statement, 40)!r} after the options of %%fastprof. Move it into the cell."
        )
    return cell


def _check(options: argparse.Namespace) -> None:
    check_table_options(options)
    name = options.name
    if name is not None and (not name.isidentifier() or keyword.iskeyword(name)):
        raise errors.ValueError(f"--as {name}: not a name of a variable. Use one such as prof.")
    if options.height < MIN_HEIGHT:
        raise errors.ValueError(
            f"invalid --height {options.height}. Use at least {MIN_HEIGHT} pixels."
        )
    if options.html is not None:
        from fastprof.report.export import check_html_path

        check_html_path(options.html)
        check_output(options.html)


def _show_or_warn(profiler: Any, options: argparse.Namespace, label: str, raised: bool) -> None:
    """Show the report. raised: the cell raised an exception, which a failure to show must not replace."""
    try:
        _show(profiler, options, label)
    except Exception as error:
        if not raised:
            raise
        warnings.warn(f"fastprof: the report could not be shown: {error!r}", stacklevel=2)


def _show(profiler: Any, options: argparse.Namespace, label: str) -> None:
    from IPython.display import display

    from fastprof.base.atomic_file import atomic_binary
    from fastprof.base.html_table import html_note
    from fastprof.report.inline import MAX_INLINE_BYTES, inline_report

    events = profiler.events()
    notes = [f"not recorded: {what}: {reason}" for what, reason in profiler.missing.items()]
    if len(events) <= 1 and not profiler.event_table.dropped:
        notes.append(
            "the cell entered no range: add --calls to record every call of a function, or ranges with "
            "fastprof.record_function"
        )
    screen = Screen.of(sys.stdout)
    text = table_text(events, options, screen, calls=False)
    if options.calls and "python_calls" not in profiler.missing:
        calls = profiler.python_calls().table(row_limit=options.row_limit, max_width=screen.width)
        text += "\n".join(visible_text(line) for line in calls.split("\n"))
    shown = ""
    page = b""
    if options.html or not options.table:
        page = profiler._html_page(title=label, sources=not options.no_source)
    if not options.table:
        if len(page) <= MAX_INLINE_BYTES:
            shown = inline_report(page, options.height)
        else:
            notes.append(
                f"the report takes {len(page) >> 20} MB, too much for a notebook: write it with --html FILE"
            )
    if options.html:
        with atomic_binary(options.html) as file:
            file.write(page)
        notes.append(f"wrote {options.html}; open it in a browser")
    html = "".join(map(html_note, notes)) + (shown or profiler._repr_html_())
    plain = "\n".join([*notes, text.rstrip("\n")])
    show: Any = display  # untyped in some versions of IPython
    show({"text/html": html, "text/plain": plain}, raw=True)
