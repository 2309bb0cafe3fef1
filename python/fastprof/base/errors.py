# SPDX-License-Identifier: Apache-2.0
"""Exceptions of fastprof: the classes of ``csrc/include/fastprof/base/error.hpp`` under the same names.

Each class also derives from the best-fitting built-in exception, so ``except ValueError`` works. Messages say what to
do. The native module raises these classes, too (``csrc/bindings/register_errors.cpp``); this module does not need it.
The public name is ``fastprof.errors``, which tracebacks and pickles show.
"""

from __future__ import annotations

import builtins

__all__ = ["Error", "FormatError", "IoError", "StateError", "UnavailableError", "ValueError"]


class Error(Exception):
    """Base class of every exception that fastprof itself raises."""


class StateError(Error, RuntimeError):
    """A call is not allowed in the current state or order (stop without start, pop of another kind)."""


class ValueError(Error, builtins.ValueError):
    """An argument is invalid (negative size, unknown name, malformed options)."""


class UnavailableError(Error, RuntimeError):
    """An explicitly requested feature is not available on this machine, kernel or build."""


class IoError(Error, OSError):
    """A file or byte stream could not be read or written; no partial file is left under the final name."""


class FormatError(Error, builtins.ValueError):
    """Data read does not follow its format; the message names the place, such as an offset or a row."""


for _name in __all__:
    globals()[_name].__module__ = "fastprof.errors"
