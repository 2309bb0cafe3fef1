# SPDX-License-Identifier: Apache-2.0
"""perfetto_fields: every number is the published one, as tests/cases/perfetto_fields.txt lists them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from fastprof.importers import perfetto_fields

ROOT = Path(__file__).resolve().parents[3]
HEADER = ROOT / "csrc" / "include" / "fastprof" / "export" / "perfetto_fields.hpp"
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


def test_numbers_of_the_native_writer_and_reader() -> None:
    known = published()
    messages = {"clock": "ClockSnapshot.Clock", "interned": "EventName"}
    assert re.search(r"namespace trace \{\s*constexpr uint32_t packet = 1;", HEADER.read_text())
    compared = 0
    for block in re.finditer(r"namespace (\w+) \{([^{}]*)\}", HEADER.read_text()):
        if block[1] == "trace":
            continue
        message = messages.get(block[1], "".join(map(str.capitalize, block[1].split("_"))))
        for field, number in re.findall(r"uint32_t (\w+) = (\d+);", block[2]):
            assert known[message, field] == int(number), f"{message}.{field}"
            compared += 1
    assert compared > 60
