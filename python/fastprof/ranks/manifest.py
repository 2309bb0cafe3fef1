# SPDX-License-Identifier: Apache-2.0
"""Shard, is_manifest and read_manifest: a shard and its manifest, whose members have the types that answers need."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fastprof.base import errors
from fastprof.ranks.places import open_file

__all__ = ["FORMAT", "RECORDS", "Shard", "check_members", "is_manifest", "read_manifest"]

FORMAT = "fastprof rank 1"
RECORDS = "records-"  # begin of the names of backing files of recordings without a shard
_READ_BYTES = 64 << 20  # limit of a manifest
_MARK = b'"format": "fastprof rank'  # in the first _MARK_BYTES
_MARK_BYTES = 200
_MOST_RANKS = 1 << 20
_MOST_NS = 1 << 62


@dataclass
class Shard:
    """A readable shard: path of its Parquet file, and its manifest."""

    path: str
    manifest: dict[str, Any]

    @property
    def rank(self) -> int:
        """The rank that wrote it."""
        return int(self.manifest["rank"])

    @property
    def steps(self) -> list[list[int]]:
        """Number, start_ns and end_ns of each step."""
        found: list[list[int]] = self.manifest["steps"]
        return found


def is_manifest(path: str) -> bool:
    """Return whether a file begins as a manifest does, also a damaged one; False if it cannot be read. Any thread."""
    try:
        with open_file(path) as file:
            return _MARK in file.read(_MARK_BYTES)
    except OSError:
        return False


def read_manifest(path: str) -> dict[str, Any] | None:
    """Return the manifest in a file; None for JSON of another kind. Optional members have defaults.

    Raises errors.FormatError, without the path, for a member that is absent or of a wrong type, and OSError. Any
    thread.
    """
    with open_file(path) as file:
        head = file.read(_MARK_BYTES)
        if _MARK not in head:
            return None
        text = head + file.read(_READ_BYTES)
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise errors.FormatError(f"{error}") from error
    if not isinstance(found, dict) or found.get("format") != FORMAT:
        kind = found.get("format") if isinstance(found, dict) else found
        raise errors.FormatError(f"unknown format {kind!r}: needs a newer fastprof")
    manifest: dict[str, Any] = {"t1_ns": found.get("t0_ns"), **_DEFAULTS, **found}
    check_members(manifest, list(_MEMBERS))
    if not (manifest["killed"] is None or isinstance(manifest.get("records"), str)):
        raise errors.FormatError("the records of a killed rank are not named")
    return manifest


def check_members(manifest: Mapping[str, Any], names: Sequence[str]) -> None:
    """Raise errors.FormatError for a member of a manifest or snapshot that is of a wrong type. names: to check."""
    for name in names:
        if not (_MEMBERS.get(name) or _OF_SNAPSHOT[name])(manifest.get(name)):
            raise errors.FormatError(f"{name} is {str(manifest.get(name))[:60]!r}")


def _number(least: int, end: int) -> Callable[[Any], bool]:
    return lambda value: type(value) is int and least <= value < end


_time = _number(-_MOST_NS, _MOST_NS)
_count = _number(0, _MOST_NS)
_rank = _number(0, _MOST_RANKS)


def _text(value: Any) -> bool:
    return isinstance(value, str)


def _mapping(of: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, dict) and all(of(each) for each in value.values())


def _list(of: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, list) and all(of(each) for each in value)


def _row(*of: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda value: (
        isinstance(value, list)
        and len(value) == len(of)
        and all(check(each) for check, each in zip(of, value, strict=True))
    )


def _members(of: Mapping[str, Callable[[Any], bool]]) -> Callable[[Any], bool]:
    return lambda value: (
        isinstance(value, dict) and all(check(value.get(name)) for name, check in of.items())
    )


def _optional(of: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda value: value is None or of(value)


def _flag(value: Any) -> bool:
    return isinstance(value, bool)


def _killed(value: Any) -> bool:
    """Return whether all members are there, those of the last collective if there was one."""
    began = isinstance(value, dict) and value.get("collective")
    checks = {**_KILLED, **(_LAST if began else {})}
    return _members(checks)(value) and checks.keys() <= value.keys()


_KILLED = {
    "last_ns": _count,
    "alive": _flag,
    "step": _optional(_time),
    "collective": _text,
    "collectives": _count,
}
_LAST = {"collective_ended": _flag, "collective_start_ns": _time}
_READING = _members({"realtime_ns": _time, "monotonic_ns": _time})
_MEMBERS: dict[str, Callable[[Any], bool]] = {
    "shard": lambda value: isinstance(value, str) and value.endswith(".parquet"),
    "rank": _rank,
    "world_size": _rank,
    "local_rank": _optional(_number(-1, _MOST_RANKS)),
    "t0_ns": _time,
    "t1_ns": _time,
    "steps": _list(_row(_time, _time, _time)),
    "groups": _list(_members({"name": _text, "ranks": _list(_rank)})),
    "missing": _mapping(_text),
    "dropped": _mapping(_count),
    "threads": _list(_row(_time, _text)),
    "clock": _members({"start": _optional(_READING), "end": _optional(_READING)}),
    "clock_error_ns": _number(0, _MOST_NS >> 2),  # sums of a few are below 2^63
    "pid": _time,
    "host": _text,
    **dict.fromkeys(("process", "job_id", "records", "source", "damage"), _optional(_text)),
    "events": _optional(_count),
    "crc32": _optional(_count),
    "killed": _optional(_killed),
}
_OF_SNAPSHOT = {"taken_ns": _count, "calls": _list(_row(_count, _text, _text, _count, _count))}
_DEFAULTS: dict[str, Any] = {
    "groups": [],
    "missing": {},
    "dropped": {},
    "threads": [],
    "clock": {},
    "clock_error_ns": 0,
    "pid": 0,
    "host": "",
    "killed": None,
}
