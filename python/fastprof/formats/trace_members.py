# SPDX-License-Identifier: Apache-2.0
"""Top-level members that the Chrome writer itself puts into a trace (csrc/include/fastprof/export/chrome_trace.hpp)."""

from __future__ import annotations

__all__ = ["WRITER_MEMBERS"]

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
