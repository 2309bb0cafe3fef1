# SPDX-License-Identifier: Apache-2.0
"""Convert microseconds of JSON texts to ns exactly, although json decodes them to the nearest double.

Doubles near a time since 1970 in us are 0.25 us apart. A double therefore determines the ns only if all decimals
of which it is the nearest double round to the same ns; otherwise the event is decoded a second time, with
exact_json(). Ties go to the even ns. csrc/core/trace_rows/numbers.hpp (parse_us) has the same result.
"""

from __future__ import annotations

import decimal
import json
import math
from typing import Any

__all__ = ["exact_json", "ns_of_decimal", "ns_of_double"]

_NS = decimal.Decimal("0.001")
_CONTEXT = decimal.Context(prec=40, rounding=decimal.ROUND_HALF_EVEN)
_MOST_US = 1e18
# Uncertainty of a time, in ns per spacing of doubles in us: 500 for half a spacing, and as much for the arithmetic.
_DOUBT = 1000.0


def exact_json(text: str | bytes) -> Any:
    """Decode JSON text with Decimal instead of float. Raises the exceptions of json.loads()."""
    return json.loads(text, parse_float=_number)


def _number(text: str) -> decimal.Decimal | float:
    try:
        return decimal.Decimal(text)
    except decimal.InvalidOperation:  # an exponent that no Decimal can have
        return float(text)


def ns_of_decimal(us: decimal.Decimal | float) -> int:
    """Return the nearest ns, ties to even. us: from exact_json(); finite."""
    if not isinstance(us, decimal.Decimal) or abs(us) >= _MOST_US:
        return int(us) * 1000  # beyond 64 bits, or less than any ns
    return int(us.quantize(_NS, context=_CONTEXT).scaleb(3, _CONTEXT))


def ns_of_double(us: float) -> int | None:
    """Return the nearest ns of every decimal whose nearest double is `us`; None if they differ.

    us: finite.
    """
    whole = int(us)
    rest = (us - whole) * 1000  # us * 1000 could lose a digit
    nearest = round(rest)
    if 0.5 - abs(rest - nearest) <= _DOUBT * math.ulp(us):
        return None
    return whole * 1000 + nearest
