# SPDX-License-Identifier: Apache-2.0
"""fastprof.errors: the exceptions that fastprof raises. Public path of base/errors.py."""

from __future__ import annotations

from fastprof.base.errors import (
    Error,
    FormatError,
    IoError,
    StateError,
    UnavailableError,
    ValueError,
)

__all__ = ["Error", "FormatError", "IoError", "StateError", "UnavailableError", "ValueError"]
