# SPDX-License-Identifier: Apache-2.0
"""Statistics of calls on tables written by hand: counts, recursion, own and cumulative time, pstats."""

from __future__ import annotations

import json
import pstats
from pathlib import Path

import numpy as np
import pytest

from fastprof import EventTable, Site, Track, _core, errors
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


def test_nested_codes_kernel_refuses_what_is_out_of_range() -> None:
    for parent, code in (
        ([1, -1], [0, 0]),
        ([-1, 0], [0, 9]),
        ([-2], [0]),
        ([-1, -1, 0], [0, 0, 0]),
    ):
        with pytest.raises(errors.ValueError, match="row"):
            _core.nested_codes(
                parent=np.array(parent, np.int32), code=np.array(code, np.int32), codes=2
            )


def test_the_table_has_exact_lines() -> None:
    columns = {
        "start_ns": np.array([0, 500_000, 1_000_000, 3_000_000]),
        "end_ns": np.array([4_000_000, 900_000, 2_000_000, 3_500_000]),
        "site": np.array([0, 3, 0, 4]),
        "parent": np.array([-1, 0, 0, 0]),
    }
    found = PythonCallStats(EventTable(columns, sites=SITES, begin_ordered=True))
    head = ["4 calls (3 primitive) of 3 functions, 4.000 ms",
            "          calls      own ms own us/call    total ms  function"]  # fmt: skip
    main = "            2/1       3.100    1550.000       4.000  /a.py:1(main)"
    g = "              1       0.500     500.000       0.500  /b (2).py:9(g)"
    length = "              1       0.400     400.000       0.400  <built-in method builtins.len>"
    assert found.table().splitlines() == [*head, main, g, length]
    assert found.table("cumulative_ns").splitlines() == [*head, main, g, length]
    assert found.table("calls", row_limit=1).splitlines() == [
        *head,
        main,
        "2 more; row_limit=-1 shows all",
    ]
    assert found.table("function").splitlines() == [*head, main, g, length]
    assert found.table(row_limit=0).splitlines() == [*head, "3 more; row_limit=-1 shows all"]
    for limit in (3, 4, -1):
        assert found.table(row_limit=limit).splitlines() == [*head, main, g, length]
    assert len(found) == 3


def test_functions_are_listed_with_the_longest_first() -> None:
    own = [f.own_ns for f in stats().functions]
    assert own == sorted(own, reverse=True) and own[0] > own[-1]


def test_speedscope_is_named_after_the_process(tmp_path: Path) -> None:
    for name, shown in (("train.py", "train.py"), ("", "fastprof")):
        path = tmp_path / "calls.speedscope.json"
        made = stats()
        named = EventTable(
            made._table.to_dict(), sites=SITES, begin_ordered=True, process_name=name
        )
        PythonCallStats(named).export_speedscope(path)
        document = json.loads(path.read_text())
        assert document["name"] == shown
        frames = {frame["name"] for frame in document["shared"]["frames"]}
        assert "step" not in frames and len(frames) == 4


def test_calls_on_two_threads_do_not_nest() -> None:
    columns = {
        "start_ns": np.array([0, 10]),
        "end_ns": np.array([100, 20]),
        "site": np.array([0, 4]),
        "track": np.array([0, 1]),
    }
    table = EventTable(columns, sites=SITES, tracks=[Track(1), Track(2)], begin_ordered=True)
    assert {f.function: f.own_ns for f in PythonCallStats(table).functions} == {
        "main": 100,
        "g": 10,
    }


def test_keys_of_functions() -> None:
    from fastprof.views.python_calls import _key_of

    assert _key_of("a (b).py(12): f", None) == ("a (b).py", 12, "f")
    assert _key_of("<built-in method (3): x>", "x") == ("~", 0, "x")
    assert _key_of("print", None) == ("~", 0, "print")


def test_pstats_are_in_seconds_with_callers(tmp_path: Path) -> None:
    """As cProfile has it: (primitive calls, calls, own s, cumulative s, callers)."""
    main, f, size, g = (
        ("/a.py", 1, "main"),
        ("/a.py", 5, "f"),
        ("~", 0, "<built-in method builtins.len>"),
        ("/b (2).py", 9, "g"),
    )
    expected = {
        main: (1, 1, 20e-9, 100e-9, {}),
        f: (1, 2, 50e-9, 80e-9, {main: (1, 1, 30e-9, 80e-9), f: (1, 1, 20e-9, 40e-9)}),
        size: (2, 2, 15e-9, 15e-9, {f: (2, 2, 15e-9, 15e-9)}),
        g: (1, 1, 15e-9, 15e-9, {f: (1, 1, 15e-9, 15e-9)}),
    }  # fmt: skip
    assert stats().to_pstats().stats == expected
    stats().export_pstats(tmp_path / "calls.pstats")
    assert pstats.Stats(str(tmp_path / "calls.pstats")).stats == expected  # type: ignore[attr-defined]
