# SPDX-License-Identifier: Apache-2.0
"""Kinds of events: the user's code, libraries, imports, waits, ops, device work. All views colour events by kind."""

from __future__ import annotations

import re

from fastprof.analysis.blocking_calls import is_blocking_call
from fastprof.base.short_paths import is_installed
from fastprof.model.call_origins import is_import
from fastprof.model.sites import SiteTable

__all__ = ["KINDS", "call_kind", "site_kinds"]

# The page (page/base.js) has a colour for each, in this order.
KINDS = ("range", "user code", "library", "import", "wait", "op", "GPU")
_RANGE, _USER, _LIBRARY, _IMPORT, _WAIT, _OP = range(6)
_CALL = re.compile(r"(?P<file>.+)\(\d+\): (?P<function>.*)", re.DOTALL)
_IMPORTS = re.compile(
    r"<frozen importlib\._bootstrap.*|.*[/\\]importlib[/\\]__init__\.py\(.*"
    r"|<built-in (method|function) (.*\.)?(__import__|(create|exec)_(dynamic|builtin))\b.*",
    re.DOTALL,
)
# Source that is not in a file, but the user's: python -c, a cell of a notebook, standard input.
_TYPED = re.compile(r"<(string|stdin|ipython-input.*)>")


def call_kind(name: str) -> int:
    """Return the index in KINDS of a call, by its name in PyTorch's form: "/srv/u/train.py(12): step". Any thread."""
    if is_blocking_call(name):
        return _WAIT
    if is_import(name) or _IMPORTS.fullmatch(name):
        return _IMPORT
    found = _CALL.fullmatch(name)
    if found is None or name.startswith("<built-in "):
        return _LIBRARY
    file = found["file"]
    if is_installed(file):
        return _IMPORT if found["function"] == "<module>" else _LIBRARY
    return _LIBRARY if file.startswith("<") and not _TYPED.fullmatch(file) else _USER


def site_kinds(sites: SiteTable) -> list[int]:
    """Return the index in KINDS of each site, by its use on a CPU; a track of a device has its own. Any thread."""
    kinds: list[int] = sites.derived("kinds", lambda: _kinds(sites))
    return kinds


def _kinds(sites: SiteTable) -> list[int]:
    calls = sites.column("is_python_function")
    categories = sites.field("category")
    return [
        call_kind(name) if call else _OP if category == "cpu_op" else _RANGE
        for name, call, category in zip(sites.names, calls, categories, strict=True)
    ]
