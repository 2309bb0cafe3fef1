# SPDX-License-Identifier: Apache-2.0
"""MISSING_COUNTS: what a backing file lacks, by the names of its counts (docs/backing_file.md)."""

from __future__ import annotations

__all__ = ["MISSING_COUNTS"]

# Counts in the facts of a backing file that are non-zero if something is missing -> what they count.
MISSING_COUNTS = {
    "unread_chunks": "blocks of records that could not be read to their end",
    "unknown_texts": "texts of arguments",
    "python_stacks": "Python stacks of ranges, whose texts are not in the file",
    "damaged": "damaged headers and names",
    "names_lost": "names for which the file had no room",
    "fallback_slabs": "blocks of 2 MB for which the file had no room",
    "threads_outside": "threads whose first records lie outside the file",
}
