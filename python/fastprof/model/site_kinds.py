# SPDX-License-Identifier: Apache-2.0
"""Kinds of events: the user's code, libraries, imports, waits, ops, device work. All views colour events by kind."""

from __future__ import annotations

import re

from fastprof.model.blocking_calls import is_blocking_call
from fastprof.model.call_origins import call_origin
from fastprof.model.sites import SiteTable

__all__ = ["KINDS", "call_kind", "site_kinds"]

# The page (page/base.js) has a colour for each, in this order.
KINDS = ("range", "user code", "library", "import", "wait", "op", "GPU")
_RANGE, _USER, _LIBRARY, _IMPORT, _WAIT, _OP = range(6)
_OF_CATEGORY = {"cpu_op": _OP, "wait": _WAIT}  # "wait": FASTPROF_WAIT in C++
_ORIGINS = {"own": _USER, "installed": _LIBRARY, "c": _LIBRARY, "import": _IMPORT}
# Traces of other profilers have the calls that import a module, and none named "import MODULE".
_IMPORTS = re.compile(
    r"<frozen importlib\._bootstrap.*|.*[/\\](site|dist)-packages[/\\].*: <module>"
    r"|<built-in (method|function) (.*\.)?(__import__|(create|exec)_(dynamic|builtin))\b.*",
    re.DOTALL,
)


def call_kind(name: str) -> int:
    """Return the index in KINDS of a call, by its name in PyTorch's form: "/srv/u/train.py(12): step". Any thread."""
    if is_blocking_call(name):
        return _WAIT
    return _IMPORT if _IMPORTS.fullmatch(name) else _ORIGINS[call_origin(name)]


def site_kinds(sites: SiteTable) -> list[int]:
    """Return the index in KINDS of each site, by its use on a CPU; a track of a device has its own. Any thread."""
    kinds: list[int] = sites.derived("kinds", lambda: _kinds(sites))
    return kinds


def _kinds(sites: SiteTable) -> list[int]:
    calls = sites.column("is_python_function")
    categories = sites.field("category")
    return [
        call_kind(name) if call else _OF_CATEGORY.get(category, _RANGE)
        for name, call, category in zip(sites.names, calls, categories, strict=True)
    ]
