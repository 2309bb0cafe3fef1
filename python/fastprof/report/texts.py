# SPDX-License-Identifier: Apache-2.0
"""Texts of the report: a string table, and values as JSON text, each of bounded length."""

from __future__ import annotations

import json
from typing import Any

__all__ = ["MAX_TEXT", "Strings", "bounded", "json_value"]

MAX_TEXT = 4000  # characters of one text; longer ones are cut, with a mark that says by how much


def bounded(text: Any, limit: int = MAX_TEXT) -> str:
    """Return the text, or its begin and the number of characters cut."""
    whole = str(text)
    if len(whole) <= limit:
        return whole
    return f"{whole[:limit]}… ({len(whole) - limit:,} more characters)"


class Strings:
    """Texts by number, each once."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}

    def number(self, text: Any) -> int:
        """Return the number of a text, new if it is not in the table."""
        return self._numbers.setdefault(bounded(text), len(self._numbers))

    def texts(self) -> list[str]:
        """Return the texts by number."""
        return list(self._numbers)


def json_value(value: Any) -> str:
    """Return a value as JSON text for people to read; its str() if it cannot be JSON."""
    try:
        return bounded(json.dumps(value, ensure_ascii=False, default=str))
    except (TypeError, ValueError, RecursionError):
        return bounded(value)
