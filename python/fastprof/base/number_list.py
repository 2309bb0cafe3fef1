# SPDX-License-Identifier: Apache-2.0
"""number_list: numbers as a short text."""

from __future__ import annotations

from fastprof.base.formatting import counted

__all__ = ["number_list"]


def number_list(numbers: list[int], limit: int = 8) -> str:
    """Return numbers as text, runs joined: "3, 7-9", and how many more there are beyond `limit` runs."""
    runs: list[list[int]] = []
    for number in sorted(numbers):
        if runs and number == runs[-1][1] + 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    texts = [str(a) if a == b else f"{a}-{b}" for a, b in runs]
    more = len(texts) - limit
    return ", ".join(texts[:limit]) + (f" and {counted(more, 'more run')}" if more > 0 else "")
