# SPDX-License-Identifier: Apache-2.0
"""TorchScript: `with fastprof.record_function("x"):` in a function given to torch.jit.script.

TorchScript looks a Python class up by its qualified name, and torch._jit_internal._qualified_name() lets a class choose
that name by an attribute. fastprof.record_function returns the name of torch's class, which is compiled on first use;
the scripted function is the same as with torch.profiler.record_function.
"""

from __future__ import annotations

import sys
from typing import Any

__all__ = ["name_for_torchscript"]


class _TorchScriptName:
    """Class attribute: the qualified name of torch's record_function, which it compiles on access."""

    def __init__(self, of: type) -> None:
        self._of = of

    def __get__(self, instance: object, owner: type | None = None) -> str:
        torch: Any = sys.modules.get("torch")
        # A subclass has code of its own, which TorchScript must compile or reject.
        if torch is None or instance is not None or owner is not self._of:
            raise AttributeError("_jit_override_qualname")
        theirs = torch.autograd.profiler.record_function
        name = str(torch._jit_internal._qualified_name(theirs))
        resolve = torch._jit_internal.createResolutionCallbackForClassMethods(theirs)
        torch.jit._script._compile_and_register_class(theirs, resolve, name)
        return name


def name_for_torchscript(range_type: type) -> None:
    """Make torch.jit.script compile `range_type` as torch.profiler.record_function."""
    type.__setattr__(range_type, "_jit_override_qualname", _TorchScriptName(range_type))
