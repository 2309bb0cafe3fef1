# SPDX-License-Identifier: Apache-2.0
"""Whether the debug info of this torch's threads is known: by it go allocations, and work that travels."""

from __future__ import annotations

from typing import Any

from fastprof import _core
from fastprof.profiler.torch_versions import version_of
from fastprof.profiler.unlisted_torch import numbers_of_headers

__all__ = ["prepare_debug_info"]


def prepare_debug_info(torch: Any) -> str:
    """Find and prove it, once; empty when it holds, else the reason. Its ops are observed already."""
    version = version_of(torch)
    layout = _core.torch_known_memory_layout(version)
    if layout is not None:
        return _core.torch_memory_prepare(version)
    numbers = numbers_of_headers(torch, version, "memory")
    return numbers if isinstance(numbers, str) else _core.torch_memory_prepare(version, numbers)
