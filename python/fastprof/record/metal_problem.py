# SPDX-License-Identifier: Apache-2.0
"""Whether Metal work can be profiled in this process.

Separate from metal.py because the first profile of every process needs it, and must not load more than that.
"""

from __future__ import annotations

import os
import sys

from fastprof import _core
from fastprof.base import errors

__all__ = ["metal_problem"]

_LIBRARY = "FASTPROF_METAL_LIBRARY"


def metal_problem() -> str | None:
    """Return why Metal work cannot be profiled in this process; None if it can.

    Costs nothing on systems other than macOS. Any thread.
    """
    if sys.platform != "darwin" and not os.environ.get(_LIBRARY):
        return f"Metal exists on macOS only, and this is {sys.platform}"
    _core.register_metal()
    try:
        return _core.metal_problem() or None
    except errors.ValueError as error:  # an invalid value of an environment variable
        return str(error)
