# SPDX-License-Identifier: Apache-2.0
"""Read a whole JSON document within the limits of a source."""

from __future__ import annotations

import json
from typing import Any

from fastprof.base import errors
from fastprof.importers.source import Source

__all__ = ["json_object"]

_PIECE_BYTES = 1 << 22


def json_object(source: Source) -> dict[str, Any]:
    """Return the object that the file contains. Raises errors.FormatError if it is no JSON object, or too large."""
    pieces, size = [], 0
    while piece := source.read(_PIECE_BYTES):
        pieces.append(piece)
        size += len(piece)
        # A character of JSON takes less than this in Python's objects, on average of any real profile.
        source.budget.check(16 * size)
    try:
        found = json.loads(b"".join(pieces))
    except ValueError as error:
        raise errors.FormatError(f"{source.path}: invalid JSON: {error}") from None
    if not isinstance(found, dict):
        raise errors.FormatError(f"{source.path}: expected a JSON object")
    return found
