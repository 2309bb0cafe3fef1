# SPDX-License-Identifier: Apache-2.0
"""Call a function once a module is imported: at once if it is loaded, else after its import.

Implemented by a finder in sys.meta_path. It is installed only while a module is awaited, and costs one Python call
per import of a module that is not loaded yet (1 us; the import itself takes at least 50 us).
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

__all__ = ["after_import", "forget_import", "watch_import"]

_lock = threading.RLock()
_awaited: dict[str, list[Callable[[], None]]] = {}
# .name: the module whose spec this thread is requesting from the other finders
_searching = threading.local()


def after_import(name: str, call: Callable[[], None]) -> None:
    """Call `call()` once, when the module `name` is completely imported.

    It runs on this thread now if the module is loaded, otherwise on the importing thread, under that module's
    import lock: `call` must neither wait for another thread nor raise. Any thread.
    """
    with _lock:
        if not _loaded(name):
            watch_import(name, call)
            return
    call()


def watch_import(name: str, call: Callable[[], None]) -> None:
    """Like after_import, but assumes that the module is not loaded: never runs `call` immediately."""
    with _lock:
        _awaited.setdefault(name, []).append(call)
        if _watch not in sys.meta_path:
            sys.meta_path.insert(0, _watch)


def forget_import(name: str, call: Callable[[], None]) -> None:
    """Cancel a pending `call`, compared by equality; no effect if there is none. Any thread."""
    with _lock:
        calls = _awaited.get(name, [])
        if call in calls:
            calls.remove(call)
        if not calls:
            _awaited.pop(name, None)
        _stop_if_idle()


def _loaded(name: str) -> bool:
    module = sys.modules.get(name)
    spec = getattr(module, "__spec__", None)
    return module is not None and not getattr(spec, "_initializing", False)


def _imported(name: str) -> None:
    with _lock:
        calls = _awaited.pop(name, [])
        _stop_if_idle()
    for call in calls:
        call()


def _stop_if_idle() -> None:
    if not _awaited and _watch in sys.meta_path:
        sys.meta_path.remove(_watch)


class _ImportWatch:
    """Meta path finder that wraps the loaders of awaited modules, to report the end of their import."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return the spec of an awaited module, with a reporting loader; None for any other module."""
        if fullname not in _awaited:
            for late in [name for name in _awaited if _loaded(name)]:
                _imported(late)  # its import was in progress when after_import() was called
            return None
        if getattr(_searching, "name", None) == fullname:
            return None  # re-entered: another finder delegates to the rest of sys.meta_path
        _searching.name = fullname
        try:
            spec = _found_by_others(fullname, path, target)
        finally:
            _searching.name = None
        loader: Any = spec and spec.loader
        if spec is not None and hasattr(loader, "exec_module"):
            spec.loader = _ReportingLoader(loader, fullname)  # type: ignore[assignment]
        return spec


def _found_by_others(
    fullname: str, path: Sequence[str] | None, target: ModuleType | None
) -> ModuleSpec | None:
    for finder in list(sys.meta_path):
        find: Any = None if finder is _watch else getattr(finder, "find_spec", None)
        spec: ModuleSpec | None = find and find(fullname, path, target)
        if spec is not None:
            return spec
    return None


class _ReportingLoader:
    def __init__(self, loader: Any, name: str) -> None:
        self._loader = loader
        self._name = name

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        module: ModuleType | None = self._loader.create_module(spec)
        return module

    def exec_module(self, module: ModuleType) -> None:
        # Restore the original loader, so that the module looks as if loaded without the watch.
        if module.__spec__ is not None:
            module.__spec__.loader = self._loader
        module.__loader__ = self._loader
        self._loader.exec_module(module)
        _imported(self._name)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loader, name)  # get_source, is_package, ...


def _after_fork_in_child() -> None:
    """Replace the lock, which another thread of the parent may have held."""
    global _lock
    _lock = threading.RLock()


_watch = _ImportWatch()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork_in_child)
