# SPDX-License-Identifier: Apache-2.0
"""Rates at which stacks can be sampled."""

from __future__ import annotations

from numbers import Real
from typing import Any

__all__ = ["MAX_SAMPLE_HZ", "is_sample_rate"]

MAX_SAMPLE_HZ = 20_000


def is_sample_rate(given: Any) -> bool:
    """Return whether a value is a number of samples a second, above 0 and at most MAX_SAMPLE_HZ. Any thread."""
    return isinstance(given, Real) and 0 < float(given) <= MAX_SAMPLE_HZ
