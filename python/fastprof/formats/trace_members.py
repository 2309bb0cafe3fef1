# SPDX-License-Identifier: Apache-2.0
"""What fastprof's own trace writers put into a trace, so that its readers can recognise it.

WRITER_MEMBERS: top-level members of Chrome's form (csrc/include/fastprof/export/chrome_trace.hpp).
EXTRA_LANE: names of the additional lanes of a thread or task (export/track_layout.hpp).
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
