# SPDX-License-Identifier: Apache-2.0
"""perfetto_fields: every number is the published one, as tests/cases/perfetto_fields.txt lists them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from fastprof.importers import perfetto_fields

CASES = Path(__file__).resolve().parents[2] / "cases" / "perfetto_fields.txt"
MESSAGES = sorted(set(perfetto_fields.__all__) - {"PACKET_NAMES"})


def published() -> dict[tuple[str, str], int]:
    """Return (message, field in lower case) -> number."""
    lines = (line.split() for line in CASES.read_text().splitlines() if line[:1] not in ("", "#"))
    return {(message, field.lower()): int(number) for message, field, number in lines}


@pytest.mark.parametrize("name", MESSAGES)
def test_numbers_of_a_message(name: str) -> None:
    kind = getattr(perfetto_fields, name)
    numbers = {k.lower(): v for k, v in vars(kind).items() if k.isupper()}
    known = published()
    assert numbers and kind.__doc__ is not None
    for message in re.split(r", | and ", kind.__doc__.rstrip(".")):
        listed = {field: known.get((message, field)) for field in numbers}
        if message == "InternedString":
            listed["name"] = numbers["name"]  # the field is named str there
        assert listed == numbers, message


def test_names_of_packets_that_are_not_decoded() -> None:
    known = published()
    names = perfetto_fields.PACKET_NAMES
    assert len(names) > 15
    assert {known["TracePacket", name]: name for name in names.values()} == names
