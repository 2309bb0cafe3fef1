# SPDX-License-Identifier: Apache-2.0
"""optional_package: import what an extra of fastprof installs."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from fastprof.base import errors

__all__ = ["optional_package"]


def optional_package(name: str, extra: str) -> Any:
    """Import and return an optional package. extra: fastprof's extra that installs it.

    Raises errors.UnavailableError, which names the extra, if it cannot be imported.
    """
    try:
        return import_module(name)
    except ImportError as error:
        raise errors.UnavailableError(
            f"the required package {name} cannot be imported ({error}). "
            f"Install it, for example with: pip install 'fastprof[{extra}]'"
        ) from error
