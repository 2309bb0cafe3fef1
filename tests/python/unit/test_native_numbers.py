# SPDX-License-Identifier: Apache-2.0
"""Enums that exist in Python and in C++: names and numbers are the same."""

from __future__ import annotations

import enum
import re
from pathlib import Path

import pytest
from plain_captures import capture_of

from fastprof import _core, errors
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

HEADERS = Path(__file__).resolve().parents[3] / "csrc" / "include" / "fastprof"
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
    "event_flag": ("capture/capture.hpp", EventFlag, set()),
    "input_bit": ("payload/op_inputs/op_inputs.hpp", numbers.InputBit, set()),
}
# What the importers say of the scanners' enums -> their number.
SCANNERS = {
    "Stop": {"other": chrome_trace.OTHER, "refused": chrome_trace.REFUSED, "more": 0},
    "OpScope": {
        name: event_columns._SCOPES.index(scope)
        for name, scope in (
            ("user", USER_SCOPE),
            ("function", RecordScope.FUNCTION),
            ("backward", RecordScope.BACKWARD_FUNCTION),
        )
    },
    "TextKind": {
        name: perfetto_sequence._TEXTS.index(field)
        for name, field in (
            ("category", InternedData.EVENT_CATEGORIES),
            ("event_name", InternedData.EVENT_NAMES),
            ("annotation_name", InternedData.DEBUG_ANNOTATION_NAMES),
            ("annotation_text", InternedData.DEBUG_ANNOTATION_STRING_VALUES),
        )
    },
}
NATIVE = _core.native_numbers()
LIMITS = NATIVE["limits"]


def names_in_header(name: str, header: str) -> list[str]:
    """The enumerators of an enum, or the constants of a namespace, as the header spells them."""
    text = re.sub(r"//.*", "", (HEADERS / header).read_text())
    found = re.search(rf"(?:enum class|namespace) {name}\b[^{{;]*\{{([^}}]*)\}}", text)
    assert found is not None, f"{header} has no {name}"
    return re.findall(r"(\w+)\s*=(?!=)", found.group(1))


@pytest.mark.parametrize("name", COPIES)
def test_the_module_exports_what_the_header_has(name: str) -> None:
    in_header = names_in_header(name, COPIES[name][0])
    assert len(in_header) >= 3
    only_internal = {"call_line"} if name == "event_flag" else set()  # in no capture
    assert sorted(NATIVE[name]) == sorted(set(in_header) - only_internal)


@pytest.mark.parametrize("name", COPIES)
def test_python_has_the_same_names_and_numbers(name: str) -> None:
    _, copy, native_only = COPIES[name]
    native = {key.upper(): number for key, number in NATIVE[name].items() if key not in native_only}
    assert native_only <= set(NATIVE[name])
    assert {key.upper(): int(value) for key, value in copy.__members__.items()} == native


def test_every_exported_enum_is_compared() -> None:
    assert set(NATIVE) == {*COPIES, *SCANNERS, "limits"}
    declared = {
        value
        for value in vars(numbers).values()
        if isinstance(value, type) and issubclass(value, enum.Enum)
        and value.__module__ == numbers.__name__
    }  # fmt: skip
    assert declared <= {copy for _, copy, _ in COPIES.values()}


@pytest.mark.parametrize("name", SCANNERS)
def test_the_importers_know_the_numbers_of_the_scanners(name: str) -> None:
    assert NATIVE[name] == SCANNERS[name]


def test_other_copies_of_the_importers() -> None:
    stops = perfetto_packets._OTHER, perfetto_packets._REFUSED
    assert stops == (chrome_trace.OTHER, chrome_trace.REFUSED)
    types = (numbers.ArgType.INT64, numbers.ArgType.FLOAT64)
    assert types == (chrome_events._INT64, chrome_events._FLOAT64)
    assert (event_columns._COUNTERS["C"], event_columns._COUNTERS["D"]) == types


def test_limits_and_drop_causes() -> None:
    ours = {"kMaxArgs": numbers.MAX_ARGS, "kNoParent": NO_PARENT, "kNoPayload": NO_PAYLOAD}
    assert ours == LIMITS
    causes = _core.missing_causes()
    assert set(causes) == {cause.name.lower() for cause in numbers.DropCause}
    incomplete = {cause.name.lower() for cause in numbers.INCOMPLETE_CAUSES}
    assert {name for name, missing in causes.items() if not missing} == incomplete


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
