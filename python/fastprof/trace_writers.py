# SPDX-License-Identifier: Apache-2.0
"""fastprof.trace_writers: write traces of any table. Public path of exporters/trace_writers.py."""

from __future__ import annotations

from fastprof.exporters.trace_writers import (
    write_chrome_capture,
    write_chrome_trace,
    write_perfetto_capture,
    write_perfetto_trace,
)

__all__ = [
    "write_chrome_capture",
    "write_chrome_trace",
    "write_perfetto_capture",
    "write_perfetto_trace",
]
