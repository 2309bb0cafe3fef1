# SPDX-License-Identifier: Apache-2.0
"""export_html: write the report of a profile, or of two, as one self-contained HTML file."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from fastprof.analysis.memory_summary import MemoryReport
from fastprof.base import errors
from fastprof.base.atomic_file import atomic_binary
from fastprof.model.table import EventTable
from fastprof.report.dataset import Dataset, make_dataset
from fastprof.report.page_text import page_parts
from fastprof.views import EventList

__all__ = ["check_html_path", "export_comparison", "export_html", "html_page"]


def check_html_path(path: str | os.PathLike[str]) -> None:
    """Raise errors.ValueError unless the path ends in .html or .htm, optionally with .gz."""
    name = os.fsdecode(path).removesuffix(".gz")
    if os.path.splitext(name)[1] not in (".html", ".htm"):
        raise errors.ValueError(
            f"cannot write {path}: the report is an HTML page. Use a path that ends in .html."
        )


def export_html(
    events: EventList[Any] | EventTable,
    path: str | os.PathLike[str],
    *,
    title: str = "",
    sources: bool = True,
    facts: Mapping[str, str] | None = None,
    missing: Mapping[str, str] | None = None,
    notes: tuple[str, ...] = (),
    memory: MemoryReport | None = None,
) -> None:
    """Write the report of an event list or table: one HTML file that a browser opens without a network.

    title: heading of the page; default: the process name. sources: embed the text of the source files that
    the profile names and that exist now, up to 1 MiB each and 8 MiB in all. facts: label -> text about the
    machine. missing: what was requested but not recorded -> reason. notes: further lines on what is incomplete.
    memory: memory_report() of the profile; None: computed from the table.

    Raises errors.ValueError for a suffix other than .html (or .html.gz), errors.IoError if the file cannot
    be written; an existing file then stays unchanged. Any thread.

        fastprof.report.export.export_html(fastprof.load("train.fastprof"), "train.html")
    """
    check_html_path(path)
    dataset = make_dataset(
        _listed(events),
        title=title,
        sources=sources,
        facts=facts,
        missing=missing,
        notes=notes,
        memory=memory,
    )
    _write(path, {"a": dataset})


def html_page(events: EventList[Any] | EventTable, **options: Any) -> bytes:
    """Return the bytes of the page that export_html writes. options: its keyword arguments."""
    return b"".join(page_parts({"a": make_dataset(_listed(events), **options)}))


def export_comparison(
    before: EventList[Any] | EventTable,
    after: EventList[Any] | EventTable,
    path: str | os.PathLike[str],
    *,
    titles: tuple[str, str] = ("before", "after"),
    sources: bool = True,
) -> None:
    """Write one report of two profiles: that of `after`, with a view of the differences from `before`.

    titles: names of the two profiles in the page. Errors and thread rule are those of export_html.
    """
    check_html_path(path)
    first = make_dataset(_listed(before), title=titles[0], sources=False)
    second = make_dataset(_listed(after), title=titles[1], sources=sources)
    _write(path, {"a": second, "b": first})


def _listed(events: EventList[Any] | EventTable) -> EventList[Any]:
    if isinstance(events, EventTable):
        return events.events()
    return events


def _write(path: str | os.PathLike[str], datasets: dict[str, Dataset]) -> None:
    with atomic_binary(path) as file:
        for part in page_parts(datasets):
            file.write(part)
