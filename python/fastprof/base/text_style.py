# SPDX-License-Identifier: Apache-2.0
"""TextStyle: colours and bars of text for a terminal. Its default prints plain ASCII text."""

from __future__ import annotations

import unicodedata
from typing import NamedTuple

__all__ = ["TextStyle", "cut_to_width", "share_role", "text_width"]

# Role -> SGR parameters (ECMA-48): the 8 colours that every theme of a terminal defines.
_ROLES = {
    "head": "1",
    "hot": "1;31",
    "warm": "33",
    "bar": "36",
    "faint": "2",
    "up": "31",
    "down": "32",
}
_EIGHTHS = "\u258f\u258e\u258d\u258c\u258b\u258a\u2589\u2588"
# Backgrounds of the flame graph by kind (model/site_kinds.py): like the colours of the HTML report.
_FILLS = (45, 44, 46, 43, 47, 42, 41)


class TextStyle(NamedTuple):
    """What a terminal can print. colour: escape sequences. blocks: block and line characters of Unicode."""

    colour: bool = False
    blocks: bool = False

    def paint(self, text: str, role: str) -> str:
        """Return the text in the colour of a role: head, hot, warm, bar, faint, up, down, or "" (unchanged)."""
        return (
            f"\x1b[{_ROLES[role]}m{text}\x1b[0m" if self.colour and role and text.strip() else text
        )

    def fill(self, text: str, kind: int) -> str:
        """Return the text in black on the background of a kind of event (model/site_kinds.py)."""
        return f"\x1b[30;{_FILLS[kind]}m{text}\x1b[0m" if self.colour else text

    def bar(self, share: float, width: int) -> str:
        """Return a bar of at most `width` characters for a share of 0 to 1; without trailing blanks."""
        share = min(max(share, 0.0), 1.0) if share == share else 0.0
        if not self.blocks:
            return "#" * round(share * width)
        full, rest = divmod(round(share * width * 8), 8)
        return _EIGHTHS[7] * full + (_EIGHTHS[rest - 1] if rest else "")


def share_role(share: float) -> str:
    """Return the role of a number by its share of the whole: "hot" from 0.2, "warm" from 0.05, else ""."""
    return "hot" if share >= 0.2 else "warm" if share >= 0.05 else ""


def text_width(text: str) -> int:
    """Return the width of a text in terminal columns: wide characters take two, combining ones none."""
    if text.isascii():
        return len(text)
    return sum(_width(character) for character in text)


def cut_to_width(text: str, width: int) -> str:
    """Return a text cut or padded to `width` terminal columns.

    From a width of 8, "..." replaces the middle, so that names that differ at their ends still do.
    """
    if text_width(text) > width:
        if width < 8:
            text = _begin(text, width)
        else:
            end = _begin(text[::-1], (width - 3) // 2)[::-1]
            text = _begin(text, width - 3 - text_width(end)) + "..." + end
    return text + " " * (width - text_width(text))


def _begin(text: str, width: int) -> str:
    """Return the longest begin of a text that takes at most `width` terminal columns."""
    taken = 0
    for number, character in enumerate(text):
        taken += _width(character)
        if taken > width:
            return text[:number]
    return text


def _width(character: str) -> int:
    if unicodedata.combining(character) or character in "\u200c\u200d\ufe0e\ufe0f":
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1
