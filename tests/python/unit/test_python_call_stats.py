# SPDX-License-Identifier: Apache-2.0
"""Statistics of calls on tables written by hand: counts, recursion, own and cumulative time, pstats."""

from __future__ import annotations

import os
import pstats
import time
from pathlib import Path

import numpy as np
import pytest

import fastprof
from fastprof import EventTable, Site, _core, errors
from fastprof.model.table import EventFlag
from fastprof.views.python_calls import PythonCallStats

# 0: main calls f; f calls f, which calls len and g; f calls len. A range lies between main and f.
SITES = [
    Site("/a.py(1): main", category="python_function"),
    Site("step", category="user_annotation"),
    Site("/a.py(5): f", category="python_function"),
    Site("<built-in function len>", category="python_function", function="<built-in method builtins.len>"),
    Site("/b (2).py(9): g", category="python_function"),
]  # fmt: skip
ROWS = [  # site, start, end, parent
    (0, 0, 100, -1),
    (1, 5, 95, 0),
    (2, 10, 90, 1),
    (2, 20, 60, 2),
    (3, 25, 30, 3),
    (4, 40, 55, 3),
    (3, 70, 80, 2),
]


def stats(flags: list[int] | None = None) -> PythonCallStats:
    site, start, end, parent = (np.array(column) for column in zip(*ROWS, strict=True))
    columns = {"start_ns": start, "end_ns": end, "site": site, "parent": parent}
    if flags is not None:
        columns["flags"] = np.array(flags)
    return PythonCallStats(EventTable(columns, sites=SITES, begin_ordered=True))


def test_functions_have_counts_and_times_as_cprofile_counts_them() -> None:
    found = {f.function: f[3:] for f in stats().functions}
    assert found == {
        "main": (1, 1, 20, 100),  # the range between them is no call: main calls f
        "f": (2, 1, (80 - 40 - 10) + (40 - 5 - 15), 80),
        "<built-in method builtins.len>": (2, 2, 15, 15),
        "g": (1, 1, 15, 15),
    }


def test_names_are_taken_apart_and_sorted_by_own_time() -> None:
    functions = stats().functions
    assert functions[0].function == "f"
    assert {f[:3] for f in functions} == {
        ("/a.py", 1, "main"),
        ("/a.py", 5, "f"),
        ("~", 0, "<built-in method builtins.len>"),
        ("/b (2).py", 9, "g"),
    }


def test_pstats_has_callers(tmp_path: Path) -> None:
    path = tmp_path / "calls.pstats"
    stats().export_pstats(path)
    read = pstats.Stats(str(path)).stats  # type: ignore[attr-defined]
    f, main = ("/a.py", 5, "f"), ("/a.py", 1, "main")
    assert read[f][:2] == (1, 2)
    assert read[f][4] == {main: (1, 1, 30e-9, 80e-9), f: (1, 1, 20e-9, 40e-9)}
    assert read[main][4] == {}
    assert stats().to_pstats().stats == read


def test_no_file_for_pstats_without_calls(tmp_path: Path) -> None:
    with fastprof.profile(sample_hz=1000) as sampled, fastprof.record_function("range"):
        end = time.monotonic() + 0.05
        while time.monotonic() < end:
            pass
    assert len(sampled.samples())  # frames below others, which are no calls
    (tmp_path / "stacks").write_text("a;b 3\n")
    for results in (sampled, sampled.event_table, fastprof.load(tmp_path / "stacks")):
        with pytest.raises(errors.ValueError, match=r"no Python calls.*python_calls=True.*--calls"):
            results.export(tmp_path / "calls.pstats")
    assert os.listdir(tmp_path) == ["stacks"]


def test_frames_of_before_the_start_are_left_out() -> None:
    flags = [int(EventFlag.FINISHED)] * len(ROWS)
    flags[0] |= int(EventFlag.ENCLOSING)
    left = stats(flags=flags)
    assert {f.function for f in left.functions} == {"f", "g", "<built-in method builtins.len>"}
    assert left.to_pstats().stats["/a.py", 5, "f"][4].keys() == {("/a.py", 5, "f")}


def test_table_names_every_function_and_says_what_it_leaves_out() -> None:
    text = stats().table()
    assert text.splitlines()[0] == "6 calls (5 primitive) of 4 functions, 0.000 ms"
    assert "2/1" in text and "/b (2).py:9(g)" in text
    assert stats().table(row_limit=1).endswith("3 more; row_limit=-1 shows all")
    assert str(stats()) == text
    with pytest.raises(errors.ValueError, match="own_ns"):
        stats().table("time")


def test_call_tree_is_exported_without_the_ranges(tmp_path: Path) -> None:
    path = tmp_path / "calls.folded"
    stats().export_stacks(path)
    lines = path.read_text().splitlines()
    assert any("main" in line and "f" in line for line in lines)
    assert "step" not in path.read_text()


def test_nested_codes_are_those_of_a_walk_up_the_tree() -> None:
    for seed in range(40):
        drawn = np.random.default_rng(seed)
        parent: list[int] = []
        path: list[int] = []
        for row in range(int(drawn.integers(0, 80))):
            while path and drawn.random() < 0.4:
                path.pop()
            parent.append(path[-1] if path else -1)
            path.append(row)
        code = drawn.integers(0, 4, len(parent)).astype(np.int32)
        up = np.array(parent, np.int32)
        found = _core.nested_codes(parent=up, code=code, codes=4)
        for row, own in enumerate(code.tolist()):
            above, at = False, parent[row]
            while at >= 0:
                above, at = above or bool(code[at] == own), parent[at]
            assert found[row] == above
