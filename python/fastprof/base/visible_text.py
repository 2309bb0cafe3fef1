# SPDX-License-Identifier: Apache-2.0
"""visible_text: names as text that neither a terminal nor a web page takes for instructions.

Names of ranges are data of whoever wrote the trace. Printed as they are, an escape sequence moves the cursor or
renames the window, a line feed makes a row of its own, and a bidi mark shows letters in another order.
"""

from __future__ import annotations

import re

__all__ = ["shortened", "visible_text"]

# Control characters (C0, DEL, C1), marks without a width that change how text is laid out, interlinear
# annotations, tags, and halves of surrogate pairs. U+200C and U+200D, which emoji and some scripts need, stay.
_HIDDEN = re.compile(
    "[\x00-\x1f\x7f-\x9f\u00ad\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff"
    "\ufff9-\ufffb\ud800-\udfff\U000e0000-\U000e007f]"
)


def visible_text(text: str) -> str:
    """Return the text with each such character replaced by one visible one, so that its length stays.

    Control characters become their symbols (ESC is U+241B), all others U+FFFD.
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
