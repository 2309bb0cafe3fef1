# SPDX-License-Identifier: Apache-2.0
"""split_magic_line: split a magic's line into the options at its begin and the statement after them, verbatim."""

from __future__ import annotations

import argparse
import re
from collections.abc import Mapping

from fastprof.base import errors

__all__ = ["split_magic_line"]

# A word, or parts of one in quotes: --html "my file.html".
_WORD = re.compile(r"""\s*((?:"[^"]*"|'[^']*'|[^\s"'])+)""")
_QUOTED = re.compile(r'"([^"]*)"|\'([^\']*)\'')


def split_magic_line(line: str, options: Mapping[str, argparse.Action]) -> tuple[list[str], str]:
    """Return (words of options and their values, the rest of the line).

    options: the parser's options by name. The rest begins at the first word that is neither an option nor an
    option's value, or after "--". Every word that begins with "-" is an option, known or not, so that a misspelt
    one is reported and not run. Raises errors.ValueError for an option without its value.
    """
    words: list[str] = []
    at = 0
    while True:
        match = _WORD.match(line, at)
        if match is None or not match[1].startswith("-") or match[1] == "-":
            return words, line[at:].strip()
        at = match.end()
        if match[1] == "--":
            return words, line[at:].strip()
        words.append(_unquoted(match[1]))
        action = options.get(match[1])
        if action is None or action.nargs == 0:
            continue
        value = _WORD.match(line, at)
        if value is None:
            raise errors.ValueError(f"{match[1]} needs a value. Add it after the option.")
        at = value.end()
        words.append(_unquoted(value[1]))


def _unquoted(word: str) -> str:
    return _QUOTED.sub(lambda match: match[1] if match[1] is not None else match[2], word)
