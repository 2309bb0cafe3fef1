# SPDX-License-Identifier: Apache-2.0
"""Which calls are of the program's own code, of installed code (packages, standard library), or of functions in C."""

from __future__ import annotations

import re
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from fastprof.base.short_paths import is_installed
from fastprof.model.table import EventTable

__all__ = ["call_origin", "call_origins", "is_import", "is_python_frame"]

Array: TypeAlias = NDArray[Any]
_CALL = re.compile(r"(.*)\(\d+\): .*", re.DOTALL)


def is_import(name: str) -> bool:
    """Return whether the name of a Python call is that of an import: "import torch.nn"."""
    return name.startswith("import ")


def is_python_frame(name: str) -> bool:
    """Return whether the name of a Python call is that of a function in Python: "file.py(12): function"."""
    return call_origin(name) in ("own", "installed") and not name.startswith("nn.Module: ")


def call_origins(table: EventTable) -> Array:
    """Return of each row "own", "installed", "c" (a function in C), "import", or "" for what is no Python call."""
    sites = table.sites
    by_site = [
        call_origin(name) if call else ""
        for name, call in zip(sites.names, sites.column("is_python_function"), strict=True)
    ]
    found: Array = np.array([*by_site, ""], "U9")[table.column("site")]
    return found


def call_origin(name: str) -> str:
    """Return the origin of a call by its name, as call_origins() does of rows."""
    if is_import(name):
        return "import"
    call = _CALL.fullmatch(name)
    if call is None or name.startswith("<built-in "):
        return "own" if name.startswith("nn.Module: ") else "c"
    return "installed" if is_installed(call[1]) or call[1].startswith("<frozen ") else "own"
