# SPDX-License-Identifier: Apache-2.0
"""What fastprof raises: the classes of ``csrc/include/fastprof/base/error.hpp`` under the same names.

Each is also the built-in exception that fits best, so ``except ValueError`` keeps working. Messages say what to do.
The native part raises these very classes (``csrc/bindings/register_errors.cpp``); this module needs no native part.
Programs know them as ``fastprof.errors``, which is what tracebacks and pickles say.
"""

from __future__ import annotations

import builtins

__all__ = ["Error", "FormatError", "IoError", "StateError", "UnavailableError", "ValueError"]


class Error(Exception):
    """The root of everything fastprof raises on its own account."""


class StateError(Error, RuntimeError):
    """A call came in an order or state that does not allow it (stop without start, pop of another kind)."""


class ValueError(Error, builtins.ValueError):
    """A value handed in is not acceptable (negative size, unknown name, malformed options)."""


class UnavailableError(Error, RuntimeError):
    """Something this machine, kernel or build does not offer was asked for explicitly."""


class IoError(Error, OSError):
    """A file or byte stream could not be read or written; nothing was left under the real name."""


class FormatError(Error, builtins.ValueError):
    """Bytes that were read do not follow the format; the message names the place."""


for _name in __all__:
    globals()[_name].__module__ = "fastprof.errors"
