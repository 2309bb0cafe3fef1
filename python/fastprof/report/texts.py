# SPDX-License-Identifier: Apache-2.0
"""Texts of the report: a string table, and values as JSON text, each of bounded length."""

from __future__ import annotations

import json
from typing import Any

from fastprof.base.visible_text import short_text

__all__ = ["MAX_TEXT", "Strings", "bounded", "json_value"]

MAX_TEXT = (
    4000  # characters of one text; a longer one is cut and ends with the number of characters cut
)


def bounded(text: Any, limit: int = MAX_TEXT) -> str:
    """Return str(text); if it is longer than `limit`, its first characters and the number of characters cut."""
    try:
        whole = str(text)
    except Exception:  # nested too deeply, or its __str__ raises
        whole = short_text(text)
    if len(whole) <= limit:
        return whole
    return f"{whole[:limit]}… ({len(whole) - limit:,} more characters)"


class Strings:
    """String table: distinct texts, numbered in the order of their first use."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}

    def number(self, text: Any) -> int:
        """Return the number of a text; add the text if it is not in the table."""
        return self._numbers.setdefault(bounded(text), len(self._numbers))

    def texts(self) -> list[str]:
        """Return the texts by number."""
        return list(self._numbers)


def json_value(value: Any) -> str:
    """Return a value as readable JSON text of bounded length; its str() if it has no JSON form."""
    try:
        return bounded(json.dumps(value, ensure_ascii=False, default=str))
    except Exception:
        return bounded(value)
