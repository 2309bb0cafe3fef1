# SPDX-License-Identifier: Apache-2.0
"""CommandParser: an argparse parser without abbreviations that suggests the closest spelling."""

from __future__ import annotations

import argparse
import os
import re
import sys
from collections.abc import Sequence
from typing import Any, NoReturn

from fastprof.base.formatting import suggestion

__all__ = ["CommandParser", "OldSpelling"]

_CHOICE = re.compile(r"invalid choice: '(?P<given>.*)' \(choose from (?P<known>.*)\)$", re.DOTALL)


class OldSpelling(argparse.Action):
    """An undocumented earlier spelling: does what the option `now` does, and prints that option's name to stderr."""

    def __init__(self, option_strings: Sequence[str], dest: str, now: argparse.Action) -> None:
        hidden = argparse.SUPPRESS
        super().__init__(option_strings, now.dest, now.nargs, default=hidden, help=hidden)
        self.type, self.choices, self._now = now.type, now.choices, now

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: Any,
        option_string: str | None = None,
    ) -> None:
        """Print the new spelling, and set the option's value."""
        now = self._now.option_strings[0]
        print(f"fastprof: {option_string} is now spelled {now}", file=sys.stderr)
        self._now(parser, namespace, values, now)


class CommandParser(argparse.ArgumentParser):
    """An ArgumentParser that accepts only complete option names and suggests the closest one.

    Abbreviations are off, because an option added later could change the meaning of one.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **{**kwargs, "allow_abbrev": False})

    def parse_known_args(  # type: ignore[override]
        self, args: Sequence[str] | None = None, namespace: argparse.Namespace | None = None
    ) -> tuple[argparse.Namespace, list[str]]:
        """Parse; for unknown arguments print an error with a suggestion and exit with code 2."""
        options, unknown = super().parse_known_args(args, namespace)
        if unknown:
            self.error(self._unknown(unknown))
        return options, unknown

    def _unknown(self, unknown: Sequence[str]) -> str:
        first = unknown[0]
        if not first.startswith("-"):
            return f"unexpected argument {first!r}"
        return f"unknown option {first}{suggestion(first.partition('=')[0], self.option_names())}"

    def option_names(self) -> list[str]:
        """Return every documented option."""
        actions = self._option_string_actions.items()
        return [name for name, action in actions if action.help != argparse.SUPPRESS]

    def error(self, message: str) -> NoReturn:
        """Print usage and the message, with a suggestion, and exit with code 2."""
        wrong = _CHOICE.search(message)
        if wrong is not None:
            known = re.findall(r"[\w.-]+", wrong["known"])
            message += suggestion(wrong["given"], known)
            if "run" in known and os.path.exists(wrong["given"]):
                message += f"; to profile a script: {self.prog} run {wrong['given']}"
        super().error(message)
