# SPDX-License-Identifier: Apache-2.0
"""Format times, shares, memory and FLOPs as PyTorch 2.13's tables print them; limit rows; suggest spellings."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from operator import index
from typing import SupportsIndex, TypeVar

from fastprof.base import errors

__all__ = [
    "TIME_UNITS",
    "counted",
    "first_rows",
    "flops_scale",
    "format_memory",
    "format_share",
    "format_time",
    "suggestion",
]

TIME_UNITS = ("s", "ms", "us")
_US_IN = {"s": 1e6, "ms": 1e3, "us": 1.0}
_Row = TypeVar("_Row")


def first_rows(rows: Sequence[_Row], row_limit: SupportsIndex | None) -> Sequence[_Row]:
    """Return the rows that a table prints. row_limit: how many at most; below 0 or None: all.

    Raises errors.ValueError for what is no whole number.
    """
    if row_limit is None:
        return rows
    if not isinstance(row_limit, SupportsIndex):
        raise errors.ValueError(
            f"invalid row_limit {row_limit!r}. Use a whole number from 0 on, or None for no limit."
        )
    return rows if index(row_limit) < 0 else rows[: index(row_limit)]


def counted(number: int, noun: str, nouns: str = "") -> str:
    """Return the number and the noun, such as "1 thread" or "2 threads".

    nouns: the plural; default: the noun with an "s".
    """
    return f"{number} {noun}" if number == 1 else f"{number} {nouns or noun + 's'}"


def format_time(time_us: float, unit: str | None = None) -> str:
    """Return a time in us as text with three decimals.

    unit: "s", "ms" or "us"; None: s from 1e6 us on, ms from 1e3 us on, else us (negative times: us).
    """
    if unit is None:
        unit = "s" if time_us >= 1e6 else "ms" if time_us >= 1e3 else "us"
    return f"{time_us / _US_IN[unit]:.3f}{unit}"


def format_share(part: float, whole: float) -> str:
    """Return part / whole in percent with two decimals; "NaN" if the whole is 0."""
    return f"{part * 100.0 / whole:.2f}%" if whole != 0 else "NaN"


def format_memory(size_bytes: int) -> str:
    """Return a size as GB, MB or KB (powers of 1024, two decimals) or plain B; it may be negative."""
    for name, unit in (("GB", 1 << 30), ("MB", 1 << 20), ("KB", 1 << 10)):
        if abs(size_bytes) >= unit:
            return f"{size_bytes / unit:.2f} {name}"
    return f"{size_bytes} B"


def flops_scale(flops: float) -> tuple[float, str]:
    """Return (factor, unit) for printing a positive number of FLOPs; unit: FLOPs, KFLOPs ... PFLOPs.

    factor, unit = flops_scale(2.5e9)  # 1e-9, "GFLOPs"
    """
    thousands = max(0.0, min(math.log10(flops) / 3, 5.0))
    unit = ("FLOPs", "KFLOPs", "MFLOPs", "GFLOPs", "TFLOPs", "PFLOPs")[int(thousands)]
    return 10 ** (math.floor(thousands) * -3.0), unit


def suggestion(given: str, known: Iterable[str], end: str = "") -> str:
    """Return "; did you mean X?" for the closest known spelling; `end` if none is close."""
    import difflib

    names = list(known)
    close = difflib.get_close_matches(given, names, n=1, cutoff=0.6)
    close = close or [name for name in names if len(given) > 2 and given in name]
    return f"; did you mean {close[0]}?" if close else end
