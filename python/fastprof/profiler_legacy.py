# SPDX-License-Identifier: Apache-2.0
"""fastprof.profiler_legacy: the exclusive profiler. Public path of compat/profiler_legacy.py."""

from __future__ import annotations

from fastprof.compat.profiler_legacy import *  # noqa: F403
from fastprof.compat.profiler_legacy import __all__ as __all__
