# SPDX-License-Identifier: Apache-2.0
"""The layout of libtorch's thread-local debug info, which carries allocation reports and propagation."""

from __future__ import annotations

from typing import Any

from fastprof import _core
from fastprof.adapters.torch.unlisted import proven_layout
from fastprof.adapters.torch.versions import version_of

__all__ = ["prepare_debug_info"]


def prepare_debug_info(torch: Any) -> str:
    """Find and prove the layout; return "" if it holds, else the reason. Requires a successful trial "ops"."""
    version = version_of(torch)
    return proven_layout(
        torch,
        version,
        "memory",
        known=_core.torch_known_memory_layout,
        proof=lambda numbers: _core.torch_memory_prepare(version, list(numbers)),
    )
