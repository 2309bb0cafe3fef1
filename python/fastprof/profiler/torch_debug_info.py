# SPDX-License-Identifier: Apache-2.0
"""Whether the debug info of this torch's threads is known: by it go allocations, and work that travels."""

from __future__ import annotations

from typing import Any

from fastprof import _core

__all__ = ["prepare_debug_info"]


def prepare_debug_info(torch: Any) -> str:
    """Find and prove it, once; empty when it holds, else the reason. Its ops are observed already."""
    version = str(getattr(torch, "__version__", "of unknown version"))
    layout = _core.torch_known_memory_layout(version)
    if layout is not None:
        return _core.torch_memory_prepare(version)
    # Not imported by the others: it loads what runs a compiler.
    from fastprof.profiler.torch_headers import LayoutError, layout_from_headers

    try:
        layout = layout_from_headers(torch, "memory")
    except LayoutError as error:
        return f"this fastprof does not know torch {version}, and {error}"
    return _core.torch_memory_prepare(version, layout)
