# SPDX-License-Identifier: Apache-2.0
"""fastprof.profiler_legacy: the exclusive profiler. Public path of compat/profiler_legacy.py."""

from __future__ import annotations

from fastprof.compat.profiler_legacy import (
    add_remote_events,
    decode_events,
    default_node_id,
    profile,
    set_default_node_id,
)

__all__ = [
    "add_remote_events",
    "decode_events",
    "default_node_id",
    "profile",
    "set_default_node_id",
]
