# SPDX-License-Identifier: Apache-2.0
"""Screen: width and style of an output stream. Text for a pipe or file is plain, and its width is not limited."""

from __future__ import annotations

import contextlib
import io
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from typing import NamedTuple, TextIO

from fastprof.base.text_style import TextStyle
from fastprof.base.visible_text import visible_text

__all__ = ["Screen", "paged"]

_DEFAULT_WIDTH = 80  # of a flame graph that is not on a terminal


class Screen(NamedTuple):
    """What a stream can show. width: characters per line, None if it is not a terminal. style: None for plain text."""

    width: int | None = None
    style: TextStyle | None = None

    @classmethod
    def of(cls, stream: TextIO | None) -> Screen:
        """Return the screen of a stream.

        Colours and bars: on a terminal, unless TERM is dumb. NO_COLOR (any value) leaves the colours out;
        FORCE_COLOR turns colours and bars on, in a pipe too. NO_COLOR wins, as in CPython's tracebacks.
        """
        width = terminal_width(stream)
        forced = bool(os.environ.get("FORCE_COLOR"))
        dumb = os.environ.get("TERM") == "dumb"
        if stream is None or not (forced or (width is not None and not dumb)):
            return cls(width, None)
        encoding = (getattr(stream, "encoding", None) or "ascii").lower().replace("-", "")
        blocks = encoding.startswith("utf")
        return cls(width, TextStyle(not os.environ.get("NO_COLOR"), blocks))

    @property
    def width_or_default(self) -> int:
        """The width; for a stream that is not a terminal, $COLUMNS or 80."""
        return self.width or shutil.get_terminal_size((_DEFAULT_WIDTH, 24)).columns

    def line(self, text: str) -> str:
        """Return a line that may contain names from a trace; for a terminal, without control sequences."""
        return text if self.width is None and self.style is None else visible_text(text)


def terminal_width(stream: TextIO | None) -> int | None:
    """Return the width in characters of a stream's terminal; None if it is not a terminal."""
    try:
        if stream is None or not stream.isatty():
            return None
        columns = os.get_terminal_size(stream.fileno()).columns
    except (OSError, ValueError, AttributeError):
        return None
    return columns or shutil.get_terminal_size().columns


@contextlib.contextmanager
def paged(wanted: bool) -> Iterator[None]:
    """Show what the block prints in $PAGER (default: less) if `wanted` and stdout is a terminal.

    If the pager cannot be run, the text is printed.
    """
    if not wanted or terminal_width(sys.stdout) is None:
        yield
        return
    text = io.StringIO()
    with contextlib.redirect_stdout(text):
        yield
    # R: colours pass. F: one screen is printed without waiting. X: the text stays when the pager ends.
    environment = {"LESS": "FRX", "LV": "-c", **os.environ}
    try:
        pager = subprocess.Popen(
            os.environ.get("PAGER") or "less",
            shell=True,  # as in other programs: PAGER is a command with options
            stdin=subprocess.PIPE,
            env=environment,
        )
        with contextlib.suppress(BrokenPipeError):  # the user left the pager before the end
            pager.communicate(text.getvalue().encode("utf-8", "replace"))
        if pager.returncode in (126, 127):  # the shell found no such program
            print(text.getvalue(), end="")
    except KeyboardInterrupt:
        pager.wait()
