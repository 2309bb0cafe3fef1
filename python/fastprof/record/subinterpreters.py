# SPDX-License-Identifier: Apache-2.0
"""Notice subinterpreters, whose Python calls are not traced: CPython has trace functions for each interpreter."""

from __future__ import annotations

import contextlib
import functools
import sys
from importlib import import_module
from typing import Any

__all__ = ["Subinterpreters"]

_MODULES = ("_interpreters", "_xxsubinterpreters")  # CPython 3.13 and later; before


class Subinterpreters:
    """Whether subinterpreters existed between begin() and end(). Use from one thread at a time."""

    def __init__(self) -> None:
        self._loaded = set(_MODULES)  # of a begin() that is interrupted, end() knows nothing
        self._seen = False
        self._replaced: list[tuple[Any, Any, Any]] = []  # module, its create(), ours

    def begin(self) -> None:
        """Notice those that exist, and each that is created from now on."""
        if sys.version_info >= (3, 14):  # asyncio and concurrent.futures import it, too
            with contextlib.suppress(ImportError):
                import_module(_MODULES[0])
        self._loaded = {name for name in _MODULES if name in sys.modules}
        self._seen = self._exist()
        for name in self._loaded:
            module: Any = sys.modules[name]
            create = getattr(module, "create", None)
            if create is not None:
                noticing = self._noticing(create)
                self._replaced.append((module, create, noticing))
                module.create = noticing

    def end(self) -> bool:
        """Return whether there were any. May be called again."""
        while self._replaced:
            module, create, noticing = self._replaced[-1]
            if module.create is noticing:
                module.create = create
            self._replaced.pop()
        # Before CPython 3.14, who imports one of the modules creates an interpreter.
        new = any(name in sys.modules and name not in self._loaded for name in _MODULES)
        return self._seen or new or self._exist()

    def _noticing(self, create: Any) -> Any:
        @functools.wraps(create)
        def noticed(*args: Any, **kwargs: Any) -> Any:
            self._seen = True
            return create(*args, **kwargs)

        return noticed

    @staticmethod
    def _exist() -> bool:
        for name in _MODULES:
            list_all = getattr(sys.modules.get(name), "list_all", None)
            if list_all is not None and len(list_all()) > 1:
                return True
        return False
