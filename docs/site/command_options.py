# SPDX-License-Identifier: Apache-2.0
"""Write the tables of options and formats in docs/command_line.md. A test fails if they are outdated.

python docs/site/command_options.py --write
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

__all__ = ["PAGE", "option_tables", "with_tables"]

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "command_line.md"
BEGIN = "<!-- written by docs/site/command_options.py -->\n"
END = "<!-- end -->\n"


def option_tables() -> str:
    """Return Markdown: a table of options for each command, in the order of the help text, and one of formats."""
    sys.path.insert(0, str(ROOT / "python"))
    from fastprof._outputs import FORMATS
    from fastprof.cli.main import make_parser

    parser = make_parser("fastprof")
    commands = next(a for a in parser._actions if isinstance(a, argparse._SubParsersAction))
    tables = {"fastprof": parser, **{f"fastprof {n}": p for n, p in commands.choices.items()}}
    formats = ["### Formats", "", "| `--to` | suffixes | what |", "|---|---|---|"]
    for kind, each in FORMATS.items():
        suffixes = ", ".join(f"`{suffix}`" for suffix in each.suffixes)
        formats.append(f"| `{kind}` | {suffixes} | {_cell(each.description)} |")
    options = (f"### {name}\n\n{_table(each)}" for name, each in tables.items())
    return "\n".join([*options, *formats, ""])


def _table(parser: argparse.ArgumentParser) -> str:
    lines = ["| option | what |", "|---|---|"]
    for action in parser._actions:
        hidden = isinstance(action, argparse._HelpAction) or action.help == argparse.SUPPRESS
        if hidden or not action.option_strings:
            continue
        value = _value(parser, action)
        names = ", ".join(f"`{name}{value}`" for name in action.option_strings)
        text = parser._get_formatter()._expand_help(action) if action.help else ""
        lines.append(f"| {names} | {_cell(text)} |")
    if len(lines) == 2:
        return "No options.\n"
    return "\n".join(lines) + "\n"


def _value(parser: argparse.ArgumentParser, action: argparse.Action) -> str:
    if action.nargs == 0:
        return ""
    text = parser._get_formatter()._format_args(action, action.dest.upper())
    if action.nargs == "?":
        return f"[={action.metavar}]"
    return f" {text}".replace("|", "\\|")


def _cell(text: str) -> str:
    """Escape characters that are markup in a Markdown table."""
    for mark in "\\|*_<[":
        text = text.replace(mark, f"\\{mark}")
    return text


def with_tables(page: str) -> str:
    """Return the page with its tables replaced by option_tables()."""
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n{option_tables()}\n{END}{after}"


if __name__ == "__main__":
    wanted = with_tables(PAGE.read_text())
    if sys.argv[1:] == ["--write"]:
        PAGE.write_text(wanted)
    elif PAGE.read_text() != wanted:
        sys.exit("docs/command_line.md: run python docs/site/command_options.py --write")
