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
_FILLS = (41, 42, 43, 44, 45, 46)  # backgrounds of the flame graph


class TextStyle(NamedTuple):
    """What a terminal can print. colour: escape sequences. blocks: block and line characters of Unicode."""

    colour: bool = False
    blocks: bool = False

    def paint(self, text: str, role: str) -> str:
        """Return the text in the colour of a role: head, hot, warm, bar, faint, up, down, or "" (unchanged)."""
        return (
            f"\x1b[{_ROLES[role]}m{text}\x1b[0m" if self.colour and role and text.strip() else text
        )

    def fill(self, text: str, number: int) -> str:
        """Return the text in black on a background: one of six colours, number modulo 6."""
        if not self.colour:
            return text
        return f"\x1b[30;{_FILLS[number % len(_FILLS)]}m{text}\x1b[0m"

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
    """Return a text cut or padded to `width` terminal columns; a cut text ends in "..." if the width is 8 or more."""
    taken = text_width(text)
    if taken > width:
        kept, taken, dots = [], 0, 3 if width >= 8 else 0
        for character in text:
            more = _width(character)
            if taken + more > width - dots:
                break
            kept.append(character)
            taken += more
        text, taken = "".join(kept) + "." * dots, taken + dots
    return text + " " * (width - taken)


def _width(character: str) -> int:
    if unicodedata.combining(character) or character in "\u200c\u200d\ufe0e\ufe0f":
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1
