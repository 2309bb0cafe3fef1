# SPDX-License-Identifier: Apache-2.0
"""What torch answers while a profile runs to those who ask whether a profiler does.

Two questions are asked in Python: the flag torch.autograd.profiler._is_profiler_enabled (torch.compile,
Inductor, Triton), and the function torch.autograd._profiler_enabled (DataPipes, programs).
"""

from __future__ import annotations

import sys
from typing import Any

__all__ = ["show_profiler"]


def _profiler_enabled() -> bool:
    """Whether a profiler runs: a fastprof profile does (torch.autograd._profiler_enabled meanwhile)."""
    return True


def show_profiler(on: bool) -> None:
    """Let torch say that a profiler runs, or what it would say without fastprof. No code of torch runs.

    torch's own profiler sets the flag, too, and clears it when it ends, on whatever thread. Called
    again with the same value: no effect. Call it with a lock held. torch is not imported.
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
    _tell_dynamo(native)


def _original(native_module: Any, autograd: Any) -> Any:
    """torch's own function, which stays in the native module; None where it is not."""
    shown = getattr(autograd, "_profiler_enabled", None)
    native = getattr(native_module, "_profiler_enabled", None)
    if native is None and shown is not _profiler_enabled:
        return shown
    return native


def _tell_dynamo(native: Any) -> None:
    """Dynamo keeps a table of torch's functions, filled when it first compiles.

    If that was during a profile, the table has the stand-in: it gets torch's function, too.
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
