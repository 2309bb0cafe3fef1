# SPDX-License-Identifier: Apache-2.0
"""What the Chrome writer itself puts at the top level of a trace (csrc/include/fastprof/export/chrome_trace.hpp)."""

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
