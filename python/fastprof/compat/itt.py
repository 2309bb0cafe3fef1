# SPDX-License-Identifier: Apache-2.0
"""torch.profiler.itt: ranges for VTune. Not supported: is_available() is False, the rest raises."""

from __future__ import annotations

from typing import NoReturn

from fastprof.base import errors

__all__ = ["is_available", "mark", "range", "range_pop", "range_push"]


def is_available() -> bool:
    """Return whether ranges are sent to ITT: False in this build."""
    return False


def _unavailable() -> NoReturn:
    raise errors.UnavailableError(
        "this build of fastprof has no ITT support. Check is_available() first, or use record_function "
        "and fastprof.mark."
    )


def range_push(msg: str) -> NoReturn:
    """Raise errors.UnavailableError."""
    _unavailable()


def range_pop() -> NoReturn:
    """Raise errors.UnavailableError."""
    _unavailable()


def mark(msg: str) -> NoReturn:
    """Raise errors.UnavailableError."""
    _unavailable()


def range(msg: str, *args: object, **kwargs: object) -> NoReturn:
    """Raise errors.UnavailableError."""
    _unavailable()
