# SPDX-License-Identifier: Apache-2.0
"""Marks by which fastprof's readers recognise the traces of its own writers.

WRITER_MEMBERS: top-level members of a Chrome trace (csrc/include/fastprof/export/chrome_metadata.hpp).
EXTRA_LANE: matches names of the additional lanes of a thread or task (export/track_layout.hpp); group 1 is the
name of the thread or task.
"""

from __future__ import annotations

import re

__all__ = ["EXTRA_LANE", "WRITER_MEMBERS"]

EXTRA_LANE = re.compile(r"(?s)(.*): (?:async|overlapping) \d+")

WRITER_MEMBERS = frozenset(
    (
        "schemaVersion",
        "deviceProperties",
        "displayTimeUnit",
        "baseTimeNanoseconds",
        "traceEvents",
        "traceName",
        "fastprof",
    )
)
