# SPDX-License-Identifier: Apache-2.0
"""MemoryBudget: a limit may be reached but not exceeded, and estimates are not below the memory that is used."""

from __future__ import annotations

import json
import tracemalloc

import pytest

from fastprof import errors
from fastprof.importers.memory_budget import MemoryBudget
from fastprof.importers.table_builder import Codes


def test_a_limit_may_be_reached_and_not_exceeded() -> None:
    budget = MemoryBudget("file", 100)
    budget.keep(60)
    budget.check(40)
    with pytest.raises(errors.FormatError, match=r"file: .*100 bytes"):
        budget.check(41)
    budget.keep(40)
    with pytest.raises(errors.FormatError, match=r"max_memory_bytes \(--max-memory-mb\)"):
        budget.keep(1)


def test_a_limit_is_positive() -> None:
    assert MemoryBudget("file", 1).limit_bytes == 1
    for wrong in (0, -1):
        with pytest.raises(errors.ValueError, match=f"invalid max_memory_bytes {wrong}"):
            MemoryBudget("file", wrong)


def test_values_take_no_more_memory_than_is_estimated() -> None:
    text = "[" + ",".join(["[]"] * 2000) + "]"
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        builder = Codes()
        builder.put(0, text, json.loads(text))
        used = tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()
    assert used <= builder.value_bytes
    estimate = builder.value_bytes
    builder.put(1, text, None)  # equal text: the value is kept once
    assert builder.value_bytes == estimate and builder.get(1) is builder.get(0)
