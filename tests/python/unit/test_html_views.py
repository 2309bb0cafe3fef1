# SPDX-License-Identifier: Apache-2.0
"""What notebooks show of results: sortable tables of bounded size, in which any name stays text."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from html.parser import HTMLParser
from typing import Any

import numpy as np
import pytest

from fastprof import (
    EventList,
    EventTable,
    FunctionEvent,
    ProfilerAction,
    Site,
    profile,
    record_function,
)
from fastprof.base.visible_text import visible_text
from fastprof.model.table import CodedColumn, EventKind, Track
from fastprof.model.table_html import table_html

HOSTILE = [
    "</td></table><script>alert(1)</script>",
    "\"' onmouseover=alert(1) &lt;",
    "\u202egnp.exe\u2066",
    "\x1b[31m\x07\x00\x9b2J",
    "\ud800 half",
    "long" * 100_000,
]


class Reader(HTMLParser):
    """Cells by row, and every element that was opened."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.rows: list[list[str]] = []
        self.elements: list[str] = []
        self._in_cell = False
        self.feed(html)

    def handle_starttag(self, tag: str, attributes: Any) -> None:
        self.elements.append(tag)
        assert not any(name.startswith("on") for name, _ in attributes)
        if tag == "tr":
            self.rows.append([])
        if tag in ("td", "th"):
            self.rows[-1].append("")
            self._in_cell = True

    def handle_endtag(self, tag: str) -> None:
        if tag in ("td", "th"):
            self._in_cell = False

    def handle_data(self, data: str) -> None:
        if self._in_cell:
            self.rows[-1][-1] += data


def table_of(count: int, names: list[str]) -> EventTable:
    start = np.arange(count, dtype=np.int64) * 100
    return EventTable(
        {"start_ns": start, "end_ns": start + 50, "site": np.arange(count) % len(names)},
        sites=[Site(name) for name in names],
    )


@pytest.mark.parametrize("kind", ["events", "averages", "table", "objects"])
def test_names_stay_text(kind: str) -> None:
    table = table_of(len(HOSTILE), HOSTILE)
    events = EventList.from_table(table)
    views: dict[str, Any] = {
        "events": events,
        "averages": events.key_averages(),
        "table": table,
        "objects": EventList([FunctionEvent(0, name, 1, 0, 10) for name in HOSTILE]),
    }
    html = views[kind]._repr_html_()
    html.encode()  # no half of a surrogate pair
    read = Reader(html)
    assert read.elements.count("script") == read.elements.count("table") == 1
    assert len(read.rows) == 1 + len(HOSTILE)
    column = read.rows[0].index("name" if kind == "table" else "Name")
    names = [row[column] for row in read.rows[1:]]
    assert (
        sorted(names)[:-1]
        == sorted([visible_text(name) for name in HOSTILE[:-1]] + [HOSTILE[-1][:299] + "\u2026"])[
            :-1
        ]
    )
    assert len(html) < 20_000


def test_a_million_rows_are_not_shown_and_not_made() -> None:
    events = EventList.from_table(table_of(1_000_000, ["a", "b"]))
    html = events._repr_html_()
    assert "first 100 of 1,000,000 rows; 999,900 more are not shown" in html
    assert len(Reader(html).rows) == 101 and len(html) < 60_000
    text = events._short_text()
    assert text.endswith("999,970 more rows: print(events.table(row_limit=...))")
    assert len(text.splitlines()) == 36
    assert len(events._rows._alive) == 0  # type: ignore[union-attr]
    assert "999,900 more" in events.to_table()._repr_html_()


def test_a_table_as_html() -> None:
    table = EventTable(
        {"start_ns": [1_000, 2_500], "end_ns": [2_000, 5_000_000], "site": [0, 1], "track": [0, 1],
         "kind": [int(EventKind.RANGE), 99], "node_id": [-1, 4]},
        sites=[Site("a"), Site("b")], tracks=[Track(7, 1, 7, "main"), Track(9)],
        coded={"overload_name": CodedColumn.encode(["out", None])}, t0_ns=1_000, dropped={"bound": 1234},
    )  # fmt: skip
    html = table._repr_html_()
    assert Reader(html).rows == [
        ["row", "name", "begin", "duration", "track", "kind", "node_id", "overload_name"],
        ["0", "a", "0.000us", "1.000us", "main", "range", "-1", "out"],
        ["1", "b", "1.500us", "4.997ms", "9", "99", "4", ""],
    ]
    is_text = [head.startswith(' class="text"') for head in html.split('scope="col"')[1:]]
    assert is_text == [False, True, False, False, True, True, False, True]
    notes = [note.partition("</p>")[0] for note in html.split("<p>")[1:]]
    assert notes == ["EventTable: 2 rows, 2 sites, 2 tracks", "dropped: bound 1,234"]
    first = table_html(table, 1)
    assert len(Reader(first).rows) == 2 and "<p>first 1 rows; 1 more are not shown</p>" in first
    assert table_html(table[:0]).startswith("<p>EventTable: 0 rows, 2 sites")


class Printer:
    """What IPython hands to _repr_pretty_."""

    def __init__(self) -> None:
        self.said = ""

    def text(self, text: str) -> None:
        self.said += text


def shown(prof: Any) -> tuple[str, str]:
    printer = Printer()
    prof._repr_pretty_(printer, False)
    return prof._repr_html_(), printer.said


def test_a_profile_in_each_state() -> None:
    prof = profile()
    assert shown(prof) == ("<p>not started</p>", "<fastprof.profile: not started>")
    prof.start()
    assert "recording; results are there after stop()" in shown(prof)[0]
    with record_function("work"):
        pass
    prof.stop()
    html, text = shown(prof)
    assert "1 row on 1 thread" in html and ">work<" in html
    assert "1 row on 1 thread" in text and "work" in text
    prof.start()
    assert "recording again; results are there after stop()" in shown(prof)[0]
    with record_function("work"), ThreadPoolExecutor(1) as pool:
        pool.submit(record_function("work").__enter__).result()
    prof.stop()
    assert all("2 rows on 2 threads in " in said for said in shown(prof))
    with profile(acc_events=True, schedule=lambda step: ProfilerAction.RECORD_AND_SAVE) as steps:
        steps.step()
    assert all("(the last of 2 recordings)" in said for said in shown(steps))
    with pytest.warns(UserWarning, match="CUDA is not available"):
        empty = profile(activities=["CPU", "CUDA"])
    with empty:
        pass
    html, text = shown(empty)
    assert "nothing was recorded" in html and "nothing was recorded" in text
    assert "not recorded: CUDA: " in html and "not recorded: CUDA: " in text
    assert "disabled" in shown(profile(False))[0]
    said: list[str] = []
    with profile(on_trace_ready=lambda prof: said.append(shown(prof)[0])):
        pass
    assert "stopping; call stop() again" in said[0]


def test_an_inline_report_is_one_sandboxed_frame() -> None:
    from fastprof.report.export import html_page
    from fastprof.report.inline import inline_report

    page = html_page(table_of(20, HOSTILE[:4]))
    html = inline_report(page, 300)
    frames: list[dict[str, Any]] = []

    class Frames(HTMLParser):
        def handle_starttag(self, tag: str, attributes: Any) -> None:
            frames.append({"tag": tag, **dict(attributes)})

    Frames().feed(html)
    assert [frame["tag"] for frame in frames] == ["iframe"]
    assert frames[0]["srcdoc"].encode() == page
    assert frames[0]["sandbox"] == "allow-scripts allow-downloads"
    assert "height:300px" in frames[0]["style"]
