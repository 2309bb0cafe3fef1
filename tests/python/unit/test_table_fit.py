# SPDX-License-Identifier: Apache-2.0
"""fit_columns: widths of a table that must fit into a terminal, which columns go first, wrapped headers."""

from __future__ import annotations

from fastprof.views.table_fit import FitColumn, fit_columns, wrap_header


def fitted(width: int, *columns: tuple[str, int, bool, bool]) -> list[tuple[str, int]]:
    made = [FitColumn(*column) for column in columns]
    return [(made[c.column].header, c.width) for c in fit_columns(made, width)]


def test_which_columns_are_left_out_first() -> None:
    name, calls = ("Name", 10, True, True), ("# of Calls", 5, False, True)
    total, node = ("CPU total %", 8, False, False), ("Node ID", 4, False, False)
    time = ("CPU total", 12, False, False)
    everything = (name, total, time, node, calls)
    whole = [("Name", 10), ("CPU total %", 8), ("CPU total", 12), ("Node ID", 4), ("# of Calls", 5)]
    assert fitted(10 + 8 + 12 + 4 + 5 + 4 * 2, *everything) == whole
    assert [header for header, _ in fitted(46, *everything)] == [
        "Name", "CPU total %", "CPU total", "# of Calls",
    ]  # fmt: skip
    assert [header for header, _ in fitted(31 + 5, *everything)] == [
        "Name",
        "CPU total",
        "# of Calls",
    ]
    assert [header for header, _ in fitted(30, *everything)] == ["Name", "# of Calls"]
    assert [header for header, _ in fitted(1, *everything)] == ["Name", "# of Calls"]
    assert fitted(1, time, name) == [("Name", 10)]
    assert fitted(1, time) == [("CPU total", 12)]


def test_texts_are_cut_evenly_and_not_below_their_least_width() -> None:
    name, source, number = (
        ("Name", 40, True, True),
        ("Source", 30, True, True),
        ("N", 9, False, True),
    )
    assert fitted(83, name, source, number) == [("Name", 40), ("Source", 30), ("N", 9)]
    assert fitted(78, name, source, number) == [("Name", 35), ("Source", 30), ("N", 9)]
    assert fitted(63, name, source, number) == [("Name", 25), ("Source", 25), ("N", 9)]
    assert fitted(62, name, source, number) == [("Name", 24), ("Source", 25), ("N", 9)]
    assert fitted(20, name, source, number) == [("Name", 24), ("Source", 16), ("N", 9)]


def test_headers_are_wrapped_between_words() -> None:
    assert wrap_header("Self CPU total", 8) == ("Self CPU", "total")
    assert wrap_header("Self CPU total", 7) == ("Self", "CPU", "total")
    assert wrap_header("Self CPU total", 9) == ("Self CPU", "total")
    assert wrap_header("unbreakable", 3) == ("unbreakable",)
