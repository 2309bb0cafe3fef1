# SPDX-License-Identifier: Apache-2.0
"""The files of benchmark results: JSON in which what fits in a line is on one line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

_COLUMNS = 500


def _text(value: Any, indent: int) -> str:
    line = json.dumps(value)
    if len(line) + indent <= _COLUMNS or not isinstance(value, dict | list) or not value:
        return line
    space = " " * (indent + 1)
    if isinstance(value, dict):
        parts = [f"{json.dumps(key)}: {_text(item, indent + 1)}" for key, item in value.items()]
    else:
        parts = [_text(item, indent + 1) for item in value]
    begin, end = "{}" if isinstance(value, dict) else "[]"
    return begin + "\n" + ",\n".join(space + part for part in parts) + "\n" + " " * indent + end


def write_results(path: Path, document: Any) -> None:
    """Write a document of JSON values; a row of a table takes a line if it fits."""
    path.write_text(_text(document, 0) + "\n")
