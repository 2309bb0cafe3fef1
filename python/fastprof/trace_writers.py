# SPDX-License-Identifier: Apache-2.0
"""fastprof.trace_writers: write traces of any table. Public path of exporters/trace_writers.py."""

from __future__ import annotations

from fastprof.exporters.trace_writers import *  # noqa: F403
from fastprof.exporters.trace_writers import __all__ as __all__
