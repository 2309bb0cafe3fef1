# SPDX-License-Identifier: Apache-2.0
"""Make torch report a running profiler while a fastprof profile runs.

Python code queries it in two ways: the flag torch.autograd.profiler._is_profiler_enabled
(torch.compile, Inductor, Triton), and torch.autograd._profiler_enabled() (DataPipes, programs).
"""

from __future__ import annotations

import sys
from typing import Any

__all__ = ["show_profiler"]


def _profiler_enabled() -> bool:
    """Return True. Replaces torch.autograd._profiler_enabled while a fastprof profile runs."""
    return True


def show_profiler(on: bool) -> None:
    """Make torch report a running profiler (True), or its own state again (False).

    torch's own profiler also sets the flag, and clears it when it ends, on any thread. A second call with
    the same value has no effect. Runs no torch code and does not import torch. Callers must serialise
    their calls.
    """
    autograd: Any = sys.modules.get("torch.autograd")
    native: Any = _original(sys.modules.get("torch._C._autograd"), autograd)
    profiler: Any = sys.modules.get("torch.autograd.profiler")
    if isinstance(getattr(profiler, "_is_profiler_enabled", None), bool):
        profiler._is_profiler_enabled = on or (native is not None and bool(native()))
    if native is None:
        return
    shown = getattr(autograd, "_profiler_enabled", None)
    if on and shown is native:
        autograd._profiler_enabled = _profiler_enabled
    elif not on and shown is _profiler_enabled:
        autograd._profiler_enabled = native
    _restore_in_dynamo(native)


def _original(native_module: Any, autograd: Any) -> Any:
    """Return torch's own function, which stays in the native module; None if missing."""
    shown = getattr(autograd, "_profiler_enabled", None)
    native = getattr(native_module, "_profiler_enabled", None)
    if native is None and shown is not _profiler_enabled:
        return shown
    return native


def _restore_in_dynamo(native: Any) -> None:
    """Put torch's own function back into Dynamo's table of torch functions, if it contains ours.

    Dynamo fills that table when it first compiles; during a profile it then finds the replacement.
    """
    rules: Any = sys.modules.get("torch._dynamo.trace_rules")
    make_table = getattr(rules, "get_torch_obj_rule_map", None)
    if not hasattr(make_table, "cache_info"):
        return
    cached: Any = make_table
    if not cached.cache_info().currsize:
        return
    table = cached()
    if _profiler_enabled in table and native not in table:
        table[native] = table.pop(_profiler_enabled)
