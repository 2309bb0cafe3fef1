# SPDX-License-Identifier: Apache-2.0
"""Compare the tables of two encodings of one trace: of what the scanners read, and of what they leave to Python.

A member with an escaped name in each Chrome event, or a field without effect in each Perfetto packet, makes the
scanner leave it to the reader of single events, which is an independent implementation.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import fastprof
from fastprof import EventTable, errors

_EVENT = re.compile(rb'\{(?=\s*"(?:ph|cat)")')
_NOT_DROPPED = b"\xd0\x02\x00"  # previous_packet_dropped: false


def one_by_one(data: bytes) -> bytes:
    """Return a trace of the same meaning whose events the native scanners do not read."""
    if data[:1] != b"\x0a":
        return _EVENT.sub(rb'{"\\u007a":0,', data)
    out, at = [], 0
    while at < len(data) and data[at] == 0x0A:
        size, shift, begin = 0, 0, at + 1
        while begin < len(data) and shift < 63:
            size |= (data[begin] & 127) << shift
            shift, begin = shift + 7, begin + 1
            if data[begin - 1] < 128:
                break
        if begin + size > len(data) or data[begin - 1] > 127:
            break
        length = size + len(_NOT_DROPPED)
        out.append(b"\x0a")
        while length > 127:
            out.append(bytes([length & 127 | 128]))
            length >>= 7
        out.append(bytes([length]) + _NOT_DROPPED + data[begin : begin + size])
        at = begin + size
    return b"".join(out) + data[at:]


def assert_equal(a: EventTable, b: EventTable) -> None:
    """Compare everything; coded columns by their values, since codes of args may differ."""
    assert sorted(a.column_names) == sorted(b.column_names)
    for name, column in a.to_dict().items():
        np.testing.assert_array_equal(column, b.column(name), name)
    assert set(a.coded) == set(b.coded)
    for name, coded in a.coded.items():
        assert [repr(coded[i]) for i in range(len(a))] == [
            repr(b.coded[name][i]) for i in range(len(b))
        ], name
    assert list(a.sites) == list(b.sites) and list(a.tracks) == list(b.tracks)
    np.testing.assert_array_equal(a.payload_words, b.payload_words)
    assert (a.kernels is None) == (b.kernels is None)
    if a.kernels is not None and b.kernels is not None:
        np.testing.assert_array_equal(a.kernels.row, b.kernels.row)
        np.testing.assert_array_equal(a.kernels.duration_ns, b.kernels.duration_ns)
    assert (a.t0_ns, a.t1_ns, a.pid, a.dropped) == (b.t0_ns, b.t1_ns, b.pid, b.dropped)
    assert _text(a.metadata) == _text(b.metadata)


def _text(metadata: Any) -> str:
    known = {**metadata, "damage": _placeless(str(metadata.get("damage")))}
    return json.dumps(known, sort_keys=True, default=repr)  # text, since NaN differs from itself


def _placeless(message: str) -> str:
    """Return an error's message without what the encodings do not share: offsets, an event's first letter."""
    return re.sub(
        r"\d+", "N", re.sub(r"found '([pc]|\\\\)'", "found an event's first member", message)
    )


def same_outcome(
    path: Path, data: bytes, salvage: bool = False, pack: Callable[[bytes], bytes] = bytes
) -> bool:
    """Load `data` and one_by_one(data): equal tables, or FormatErrors with equal messages. True for tables.

    pack: compresses the file.
    """
    tables: list[EventTable] = []
    messages: list[str] = []
    for encoded in (data, one_by_one(data)):
        path.write_bytes(pack(encoded))
        try:
            tables.append(fastprof.load(path, salvage=salvage))
        except errors.FormatError as error:
            messages.append(_placeless(str(error)))
    assert len(tables) != 1, messages
    if not tables:
        assert messages[0] == messages[1]
        return False
    assert_equal(*tables)
    return True
