# SPDX-License-Identifier: Apache-2.0
"""Find the program and its arguments on the command line of `fastprof run` and `fastprof explain --live`."""

from __future__ import annotations

import argparse
import os
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from fastprof.base.short_paths import absolute_path

__all__ = ["ProgramCall", "find_program"]


class ProgramCall(NamedTuple):
    """A program to run, as on the command line of python.

    kind: "script" (a file, or a folder or zip file with a __main__.py), "module" (-m), "code" (-c) or
    "stdin" (-). target: path, module name, code, or "-".
    """

    kind: str
    target: str
    args: tuple[str, ...]

    @property
    def label(self) -> str:
        """Name of the range around the whole run."""
        if self.kind == "module":
            return f"-m {self.target}"
        return "-c" if self.kind == "code" else self.target

    @property
    def file(self) -> str | None:
        """Path of the script; None for other programs."""
        return self.target if self.kind == "script" else None

    @property
    def file_stem(self) -> str:
        """File name, without suffix, of the default trace."""
        if self.kind == "code":
            return "command"
        if self.kind == "stdin":
            return "stdin"
        name = self.target
        if self.kind == "script":
            name = os.path.basename(absolute_path(name))  # resolves "." to the folder's name
        return name.removesuffix(".py") or "program"


def find_program(
    options: Mapping[str, argparse.Action], words: Sequence[str]
) -> tuple[int, ProgramCall | None]:
    """Return (number of words that belong to fastprof, the program; None if there is none).

    options: the command's options by name. As in python, the first word that is neither an option nor an
    option's value is the script; -m and -c take the next word. A value that may be left out follows "=". All
    words after that belong to the program, including "--" and names of fastprof's options.
    """
    at = 0
    while at < len(words):
        word = words[at]
        rest = words[at + 1 :]
        if word == "--":
            return at, _call("script", rest)
        if word[:2] in ("-m", "-c"):
            kind = "module" if word[1] == "m" else "code"
            return at, _call(kind, [word[2:], *rest] if len(word) > 2 else rest)
        if word == "-":
            return at, ProgramCall("stdin", "-", tuple(rest))
        if not word.startswith("-"):
            return at, ProgramCall("script", word, tuple(rest))
        action = options.get(word)  # None: argparse reports the unknown option
        at += 1 if action is None or action.nargs in (0, "?") else 2
    return len(words), None


def _call(kind: str, words: Sequence[str]) -> ProgramCall | None:
    if not words:
        return None
    if kind == "script" and words[0] == "-":
        kind = "stdin"
    return ProgramCall(kind, words[0], tuple(words[1:]))
