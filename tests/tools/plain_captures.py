# SPDX-License-Identifier: Apache-2.0
"""Captures without the native module's kernels: what NumPy makes of them is the oracle."""

from __future__ import annotations

from typing import Any

__all__ = ["WithoutKernels"]


class WithoutKernels:
    """A capture whose detail blocks are left to NumPy to find."""

    def __init__(self, capture: Any) -> None:
        self._capture = capture

    def __getattr__(self, name: str) -> Any:
        if name in ("find_blocks", "flops_of", "read_details"):
            raise AttributeError(name)
        return getattr(self._capture, name)
