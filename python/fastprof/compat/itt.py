# SPDX-License-Identifier: Apache-2.0
"""torch.profiler.itt: ranges for VTune. This build has none: is_available() says so, the rest raises."""

from __future__ import annotations

from typing import NoReturn

from fastprof.base import errors

__all__ = ["is_available", "mark", "range", "range_pop", "range_push"]


def is_available() -> bool:
    """Whether ranges reach ITT: False in this build."""
    return False


def _unavailable() -> NoReturn:
    raise errors.UnavailableError(
        "this build of fastprof has no ITT: ask is_available() first, or use record_function and "
        "fastprof.mark, which profiles record"
    )


def range_push(msg: str) -> NoReturn:
    """errors.UnavailableError."""
    _unavailable()


def range_pop() -> NoReturn:
    """errors.UnavailableError."""
    _unavailable()


def mark(msg: str) -> NoReturn:
    """errors.UnavailableError."""
    _unavailable()


def range(msg: str, *args: object, **kwargs: object) -> NoReturn:
    """errors.UnavailableError."""
    _unavailable()
