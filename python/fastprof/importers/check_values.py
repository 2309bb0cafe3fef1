# SPDX-License-Identifier: Apache-2.0
"""Validate the values of an imported table: sites, tracks, coded columns and scalars.

Views and exporters rely on these checks: a table that passes causes no unexpected exception later.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from fastprof.base import errors
from fastprof.base.device_type import DeviceType
from fastprof.base.native_numbers import MAX_ARGS, ArgType
from fastprof.base.record_scope import RecordScope
from fastprof.model.sites import SiteTable
from fastprof.model.table import EventKind, EventTable

__all__ = ["check_values"]

_MAX_DEPTH = 64  # of nested lists; save() writes at most this depth, too
_MAX_SCOPE, _MAX_ARG_TYPE = max(RecordScope), max(ArgType)
_INT16, _UINT32, _INT64 = 1 << 15, 1 << 32, 1 << 63
_SITE_RANGES = {  # field -> half-open range of its values
    "line": (0, _UINT32),
    "color": (0, _UINT32),
    "mask": (0, _UINT32),
    "kind": (0, max(EventKind) + 1),
    "scope": (0, _MAX_SCOPE + 1),
    "device_type": (-1, max(DeviceType) + 1),
    "device_index": (-_INT16, _INT16),
}


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_list(value: Any) -> bool:
    return isinstance(value, (list, tuple))


def _is_stack(value: Any) -> bool:
    return _is_list(value) and all(isinstance(frame, str) for frame in value)


def _is_mapping(value: Any) -> bool:
    return isinstance(value, dict)


def _is_metadata(value: Any) -> bool:
    return isinstance(value, (dict, tuple))  # EventMetadata is a named tuple


# Coded column -> test of its values and name of the expected type.
_CODED: dict[str, tuple[Callable[[Any], bool], str]] = {
    "overload_name": (_is_text, "text"),
    "activity_type": (_is_text, "text"),
    "metadata_json": (_is_text, "text"),
    "module_hierarchy": (_is_text, "text"),
    "stack": (_is_stack, "a list of texts"),
    "input_shapes": (_is_list, "a list"),
    "concrete_inputs": (_is_list, "a list"),
    "structured_input_shapes": (_is_list, "a list"),
    "structured_input_strides": (_is_list, "a list"),
    "input_dtypes": (_is_list, "a list"),
    "input_storages": (_is_list, "a list"),
    "list_dtypes": (_is_list, "a list"),
    "kwinputs": (_is_mapping, "an object"),
    "counters": (_is_mapping, "an object"),
    "event_metadata": (_is_metadata, "an object"),
}


def check_values(table: EventTable, where: str) -> None:
    """Raise errors.FormatError for the first value of a wrong type or out of range."""

    def require(good: bool, what: str) -> None:
        if not good:
            raise errors.FormatError(f"{where}: {what}")

    _check_sites(table.sites, require)
    for number, track in enumerate(table.tracks):
        ids = (track.id, track.pid, track.tid, track.thread_id)
        good = all(-_INT64 <= value < _INT64 for value in ids)
        require(good, f"track {number}: an id exceeds 64 bits")
    for name in ("t0_ns", "t1_ns", "clock_error_ns", "pid"):
        value = getattr(table, name)
        require(-_INT64 <= value < _INT64, f"{name} {value} exceeds 64 bits")
    for cause, count in table.dropped.items():
        require(0 <= count < _INT64, f"dropped {cause!r}: {count} is not a count of events")
    for name, column in table.coded.items():
        fits, kind = _CODED[name]
        if getattr(column.values, "are_texts", False):
            continue  # decoded when accessed, always to text
        for index, value in enumerate(column.values):
            if value is None:
                continue
            require(fits(value), f"{name}, value {index}: {str(value)[:40]!r} is not {kind}")
            require(_depth_fits(value), f"{name}, value {index} is nested too deeply")
    if table.has("device_type"):
        types = table.column("device_type")
        known = (types >= 0) & (types <= max(DeviceType))
        row = int(np.argmin(known)) if len(known) else 0
        require(bool(known.all()), f"row {row}: device_type is not a DeviceType")
    if table.has("scope"):
        scopes = table.column("scope")
        require(
            bool((scopes <= _MAX_SCOPE).all()), "a value of the column scope is not a RecordScope"
        )


def _check_sites(sites: SiteTable, require: Callable[[bool, str], None]) -> None:
    for field, (first, end) in _SITE_RANGES.items():
        for index, value in enumerate(sites.field(field)):
            good = first <= value < end
            require(good, f"site {index}: {field} {value} is outside {first} to {end - 1}")
    pairs = zip(sites.field("arg_names"), sites.field("arg_types"), strict=True)
    for index, (names, types) in enumerate(pairs):
        require(
            all(isinstance(name, str) for name in names),
            f"site {index}: an argument name is not text",
        )
        require(
            all(type(code) is int and 0 <= code <= _MAX_ARG_TYPE for code in types),
            f"site {index}: an argument type is outside 0 to {int(_MAX_ARG_TYPE)}",
        )
        require(
            len(types) <= min(len(names), MAX_ARGS),
            f"site {index}: {len(types)} argument types for {len(names)} names",
        )


def _depth_fits(value: Any) -> bool:
    """Return whether lists and dictionaries nest at most _MAX_DEPTH deep. Does not recurse."""
    level = [value]
    for _ in range(_MAX_DEPTH + 1):
        below: list[Any] = []
        for item in level:
            if isinstance(item, dict):
                below.extend(v for v in item.values() if isinstance(v, (dict, list, tuple)))
            elif isinstance(item, (list, tuple)):
                below.extend(v for v in item if isinstance(v, (dict, list, tuple)))
        if not below:
            return True
        level = below
    return False
