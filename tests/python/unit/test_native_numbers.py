# SPDX-License-Identifier: Apache-2.0
"""Enums that exist in Python and in C++: names and numbers are the same."""

from __future__ import annotations

import enum
import re
from pathlib import Path
from typing import Any

import pytest
from plain_captures import capture_of

from fastprof import errors
from fastprof.base import native_numbers as numbers
from fastprof.base.device_type import DeviceType
from fastprof.base.record_scope import ENGINE_RANGE_PREFIX, RecordScope
from fastprof.importers import (
    chrome_events,
    chrome_trace,
    event_columns,
    perfetto_packets,
    perfetto_sequence,
)
from fastprof.importers.check_table import FIXED_WORDS
from fastprof.importers.chrome_args import USER_SCOPE
from fastprof.importers.perfetto_fields import InternedData
from fastprof.model.columns import NO_PARENT, NO_PAYLOAD, EventFlag, EventKind
from fastprof.model.sites import Site

CSRC = Path(__file__).resolve().parents[3] / "csrc"
HEADERS = CSRC / "include" / "fastprof"
# Enum or namespace of C++ -> its header, Python's copy, and the names that only C++ has.
COPIES: dict[str, tuple[str, type[enum.IntEnum] | type[enum.IntFlag], set[str]]] = {
    "ArgType": ("recorder/state/site.hpp", numbers.ArgType, set()),
    "DetailType": ("recorder/state/site.hpp", numbers.DetailType, set()),
    "DeviceType": ("primitives/device.hpp", DeviceType, {"NONE"}),
    "DropCause": ("base/drop_cause.hpp", numbers.DropCause, set()),
    "InputKind": ("payload/op_inputs/op_inputs.hpp", numbers.InputKind, set()),
    "OverflowPolicy": ("recorder/state/state.hpp", numbers.OverflowPolicy, set()),
    "ProfilerState": ("legacy/profiler_config.hpp", numbers.ProfilerState, set()),
    "RecordScope": ("base/scope.hpp", RecordScope, {"NUM_SCOPES"}),
    "SiteKind": ("recorder/state/site.hpp", EventKind, set()),
    "category": ("base/scope.hpp", numbers.Category, set()),
    "detail_flag": ("payload/blocks/detail_block.hpp", numbers.DetailFlag, set()),
    "event_flag": ("capture/capture.hpp", EventFlag, {"call_line"}),  # in no capture
    "input_bit": ("payload/op_inputs/op_inputs.hpp", numbers.InputBit, set()),
}
# Enum of the scanners -> its header, and what the importers say of it.
SCANNERS = {
    "Stop": (
        "trace_rows/row_store.hpp",
        {"other": chrome_trace.OTHER, "refused": chrome_trace.REFUSED, "more": 0},
    ),
    "OpScope": (
        "trace_rows/row_store.hpp",
        {"user": USER_SCOPE, "function": RecordScope.FUNCTION, "backward": RecordScope.BACKWARD_FUNCTION},
    ),
    "TextKind": (
        "trace_proto/sequence_state.hpp",
        {
            "category": InternedData.EVENT_CATEGORIES, "event_name": InternedData.EVENT_NAMES,
            "annotation_name": InternedData.DEBUG_ANNOTATION_NAMES,
            "annotation_text": InternedData.DEBUG_ANNOTATION_STRING_VALUES,
        },
    ),
}  # fmt: skip
# Where the number of an enumerator is the place of a value in a list.
PLACES: dict[str, Any] = {"OpScope": event_columns._SCOPES, "TextKind": perfetto_sequence._TEXTS}


def value(expression: str) -> int:
    """The value of a constant as it is written in a header: literals of integers and their shifts."""
    plain = re.sub(r"\b(0[xX][0-9a-fA-F]+|\d+)[uUlL]+\b", r"\1", expression)
    assert re.fullmatch(r"[\s\dxXa-fA-F()<+*-]+", plain), expression
    return int(eval(plain))


def numbers_in_header(name: str, header: Path) -> dict[str, int]:
    """The enumerators of an enum, or the constants of a namespace, with their numbers."""
    text = re.sub(r"//.*", "", header.read_text())
    found = re.search(rf"(?:enum class|enum|namespace) {name}\b[^{{;]*\{{([^}}]*)\}}", text)
    assert found is not None, f"{header} has no {name}"
    parts = re.split(r"[,;]", found.group(1))
    entries = [
        re.match(r"\s*(?:constexpr \w+ )?(\w+)\s*=\s*(.+)", part, re.DOTALL) for part in parts
    ]
    assert all(entry or not part.strip() for entry, part in zip(entries, parts, strict=True)), parts
    return {entry[1]: value(entry[2]) for entry in entries if entry}


def limit(name: str, header: str) -> int:
    """A constant of a header."""
    found = re.search(rf"constexpr \w+ {name} = ([^;]+);", (HEADERS / header).read_text())
    assert found is not None
    return value(found[1])


@pytest.mark.parametrize("name", COPIES)
def test_python_has_the_same_names_and_numbers(name: str) -> None:
    header, copy, native_only = COPIES[name]
    native = numbers_in_header(name, HEADERS / header)
    assert len(native) >= 3
    assert native_only <= set(native)
    expected = {key.upper(): number for key, number in native.items() if key not in native_only}
    assert {key.upper(): int(value) for key, value in copy.__members__.items()} == expected


def test_every_enum_of_python_is_compared() -> None:
    declared = {
        value
        for value in vars(numbers).values()
        if isinstance(value, type) and issubclass(value, enum.Enum)
        and value.__module__ == numbers.__name__
    }  # fmt: skip
    assert declared <= {copy for _, copy, _ in COPIES.values()}


@pytest.mark.parametrize("name", SCANNERS)
def test_the_importers_know_the_numbers_of_the_scanners(name: str) -> None:
    header, copies = SCANNERS[name]
    if name in PLACES:
        copies = {key: PLACES[name].index(value) for key, value in copies.items()}
    assert numbers_in_header(name, CSRC / "core" / header) == copies


def test_other_copies_of_the_importers() -> None:
    stops = perfetto_packets._OTHER, perfetto_packets._REFUSED
    assert stops == (chrome_trace.OTHER, chrome_trace.REFUSED)
    types = (numbers.ArgType.INT64, numbers.ArgType.FLOAT64)
    assert types == (chrome_events._INT64, chrome_events._FLOAT64)
    assert (event_columns._COUNTERS["C"], event_columns._COUNTERS["D"]) == types


def test_limits_and_drop_causes() -> None:
    assert limit("kMaxArgs", "recorder/state/site.hpp") == numbers.MAX_ARGS
    assert limit("kNoParent", "capture/capture.hpp") == NO_PARENT
    assert limit("kNoPayload", "capture/capture.hpp") == NO_PAYLOAD
    rule = (HEADERS / "base" / "drop_cause.hpp").read_text()
    rule = rule[rule.index("bool is_missing(") :].split("}")[0]
    incomplete = re.findall(r"cause != DropCause::(\w+)", rule)
    assert incomplete == [cause.name.lower() for cause in numbers.INCOMPLETE_CAUSES]


def test_the_name_of_the_autograd_engine() -> None:
    header = (HEADERS / "payload" / "blocks" / "engine_range.hpp").read_text()
    assert f'kEngineRangePrefix = "{ENGINE_RANGE_PREFIX}"' in header


@pytest.mark.parametrize("kind", list(EventKind), ids=lambda kind: kind.name)
def test_payload_words_of_a_kind_without_arguments(kind: EventKind) -> None:
    """Their number is that of payload_words_of() in the native part: other readers index with it."""
    site = Site("a", kind=int(kind))

    def fits(count: int) -> bool:
        try:
            capture_of([site], [0], [0] * count, kind=[int(kind)])
        except errors.ValueError as error:
            return "its payload is truncated" not in str(error)
        return True

    assert next(count for count in range(9) if fits(count)) == FIXED_WORDS.get(kind, 0)
