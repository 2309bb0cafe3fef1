# SPDX-License-Identifier: Apache-2.0
"""visible_text: make names safe to print, by replacing control and layout characters with visible ones.

Names of ranges come from whoever wrote the trace. Printed unchanged, an escape sequence moves the cursor or renames
the terminal's window, a line feed starts a new row, and a bidi mark changes the order of letters.
"""

from __future__ import annotations

import re
import reprlib
from typing import Any

__all__ = ["encodable_text", "short_text", "shortened", "visible_text"]

# Control characters (C0, DEL, C1), zero-width characters that change the layout of text, interlinear
# annotations, tags, and unpaired surrogates. U+200C and U+200D are kept: emoji and some scripts need them.
_HIDDEN = re.compile(
    "[\x00-\x1f\x7f-\x9f\u00ad\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff"
    "\ufff9-\ufffb\ud800-\udfff\U000e0000-\U000e007f]"
)


def short_text(value: Any) -> str:
    """Return a short repr() of any value, or its type's name where that raises. Any thread."""
    try:
        return reprlib.repr(value)
    except Exception:
        return f"<{type(value).__name__}>"


def visible_text(text: str) -> str:
    """Return the text with each control or layout character replaced by one visible character.

    Control characters become their symbols (ESC becomes U+241B), all others U+FFFD. The length is unchanged.
    Any thread.
    """
    return _HIDDEN.sub(_symbol, text)


def _symbol(match: re.Match[str]) -> str:
    code = ord(match[0])
    if code < 0x20:
        return chr(0x2400 + code)
    return "\u2421" if code == 0x7F else "\ufffd"


def shortened(text: str, limit: int) -> str:
    """Return at most `limit` characters of a text; a cut one ends in U+2026."""
    return text if len(text) <= limit else text[: max(limit - 1, 0)] + "\u2026"


def encodable_text(text: str) -> str:
    """Return the text with each lone surrogate replaced by "?", so that strict UTF-8 readers accept it."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode()
