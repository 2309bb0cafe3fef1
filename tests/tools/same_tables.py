# SPDX-License-Identifier: Apache-2.0
"""Compare the tables that the native reader and the plain reader in Python make of the same trace."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import numpy as np

from fastprof import EventTable, errors

__all__ = ["assert_equal", "same_outcome"]


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
    assert (a.t0_ns, a.t1_ns, a.pid) == (b.t0_ns, b.t1_ns, b.pid)
    assert _text(a.metadata) == _text(b.metadata)


def _text(metadata: Any) -> str:
    return json.dumps(metadata, sort_keys=True, default=repr)  # text, since NaN differs from itself


def same_outcome(read: Callable[[bool], EventTable]) -> bool:
    """Call read(True) (native) and read(False): equal tables, or FormatErrors with equal messages. True for tables."""
    tables: list[EventTable] = []
    messages: list[str] = []
    for native in (True, False):
        try:
            tables.append(read(native))
        except errors.FormatError as error:
            messages.append(str(error))
    assert len(tables) != 1, messages
    if not tables:
        assert messages[0] == messages[1]
        return False
    assert_equal(*tables)
    return True
