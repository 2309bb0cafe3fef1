# SPDX-License-Identifier: Apache-2.0
"""fastprof: a standalone profiler for Python and C++ programs.

Importing this package is cheap: neither NumPy nor the native part is loaded until a name that needs it is used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from fastprof._version import __version__

if TYPE_CHECKING:  # what type checkers and editors see; keep in step with _LAZY
    pass

# Exported name -> module that defines it, imported when the name is first used.
_LAZY: dict[str, str] = {}

__all__ = ["__version__"]  # and every key of _LAZY; a test compares


def __getattr__(name: str) -> Any:
    module = _LAZY.get(name)
    if module is None:
        raise AttributeError(f"module 'fastprof' has no attribute {name!r}")
    value = getattr(import_module(module), name)
    globals()[name] = value  # the next look-up does not come here
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_LAZY})
