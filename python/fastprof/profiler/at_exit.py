# SPDX-License-Identifier: Apache-2.0
"""Keep results readable from a `__del__` that runs during interpreter shutdown.

Results are computed by modules that are imported on first use. Late in the shutdown sys.modules is
empty and nothing can be imported. An atexit function, which runs earlier, imports these modules and
copies them; `make_importable` puts the copies back. (Copies, because the interpreter clears the
dictionaries of modules that are still referenced.)
"""

from __future__ import annotations

import atexit
import sys
import types
import weakref
from contextlib import suppress
from importlib import import_module
from typing import Any

__all__ = ["keep_readable_at_exit", "make_importable"]

# Besides these, every module of _FOLDER.
_MODULES = (
    "fastprof.decode.consolidate",
    "fastprof.decode.short_calls",
    "fastprof.analysis.flops",
    "fastprof.analysis.memory_attribution",
    "fastprof.analysis.memory_categories.origins",
    "fastprof.views.render",
    "fastprof.views.html_view",
    "fastprof.views.tree_text",
    "fastprof.profiler.summary_html",
    "fastprof.model.table_html",
    "fastprof.model.join",
    "fastprof.views.forward_backward",
    "fastprof.formats.trace_members",
    "html",
    "socket",
    "tempfile",
)
_KEPT = ("fastprof", "numpy", *{name for name in _MODULES if "." not in name}, "warnings")
_FOLDER = "fastprof.exporters"
_results: weakref.WeakSet[object] = weakref.WeakSet()
_registered = False
_copies: dict[str, types.ModuleType] = {}
_loaded: dict[str, types.ModuleType] | None = None


def keep_readable_at_exit(result: object) -> None:
    """Register `result`: if it is alive at exit, the modules that read it are imported beforehand."""
    global _registered
    _results.add(result)
    if not _registered:
        _registered = True
        atexit.register(_keep_modules)


def make_importable() -> None:
    """Make the copied modules importable again during the shutdown; otherwise do nothing."""
    # At the very end the globals of this module are None, too.
    shutting_down: Any = getattr(sys, "meta_path", None) is None  # then sys may be None, too
    if shutting_down and _loaded is not None:
        for name, module in _copies.items():
            if _loaded.get(name) is None:
                _loaded[name] = module


def _keep_modules() -> None:
    global _loaded
    if not len(_results):
        return
    # After Ctrl-C the interpreter exits by SIGINT, but fails to do so if code is compiled at exit, as
    # namedtuple() and dataclass() do in modules imported here.
    if getattr(sys, "last_type", None) is not KeyboardInterrupt:
        with suppress(Exception):  # an atexit function cannot report an error to anybody
            from pkgutil import iter_modules

            exporters = iter_modules(import_module(_FOLDER).__path__, f"{_FOLDER}.")
            for name in (*_MODULES, *(module.name for module in exporters)):
                with suppress(Exception):
                    import_module(name)
    _loaded = sys.modules  # the dictionary that import statements read until the very end
    for name, module in list(sys.modules.items()):
        if name.partition(".")[0] in _KEPT and type(module) is types.ModuleType:
            copied = _copies[name] = types.ModuleType(name)
            copied.__dict__.update(module.__dict__)
