# SPDX-License-Identifier: Apache-2.0
"""Formats of the command line: chosen by suffix, each written by its writer, with a progress bar on terminals."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import fastprof
from fastprof import errors
from fastprof.cli import formats
from fastprof.exporters import progress, range_stacks
from fastprof.model.table import EventTable, Site

BEGINS = {
    "native": b"\x89FPROF", "chrome": b"{", "perfetto": b"\n", "speedscope": b"{", "folded": b"thread 0;a 20\n",
    "pprof": b"\x1f\x8b", "pstats": b"", "html": b"<!doctype html>", "csv": b"name,",
}  # fmt: skip


def table(name: str = "p") -> EventTable:
    return EventTable(
        {"start_ns": [0, 10], "end_ns": [100, 90], "site": [0, 1], "parent": [-1, 0]},
        sites=[Site("a"), Site("f.py(1): f", category="python_function")], process_name=name,
    )  # fmt: skip


def test_unknown_suffixes() -> None:
    for path in ("a", "a.gz", "a.xyz", "json", "x.json/a"):
        with pytest.raises(errors.ValueError, match=f"unknown format of {path}. Use one of the"):
            formats.format_of(path)
    with pytest.raises(errors.ValueError, match=r"unknown format of a\.jsn.*\.json"):
        formats.format_of("a.jsn")
    with pytest.raises(errors.ValueError, match=r"unknown format 'crome'.*did you mean chrome"):
        table().export("a.json", format="crome")
    for path in ("m.json", "m.csv", "m.html", "m.memory.json.gz"):
        formats.check_memory_path(path)
    for path in ("m", "m.txt", "m.gz", "m.htm"):
        with pytest.raises(errors.ValueError, match=r"Use \.json, \.csv or \.html"):
            formats.check_memory_path(path)


@pytest.mark.parametrize("kind", BEGINS)
def test_a_table_in_each_format(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    seen: list[tuple[str, int, int]] = []

    @contextlib.contextmanager
    def bar(what: str, stream: Any = None) -> Iterator[Any]:
        yield lambda done, total: seen.append((what, done, total))

    monkeypatch.setattr(progress, "terminal_progress", bar)
    path = tmp_path / f"t{formats.FORMATS[kind][0][0]}"
    formats.write_table(table(), str(path), kind)
    content = path.read_bytes()
    assert content.startswith(BEGINS[kind]) and len(content) > 10
    if kind == "native":
        assert seen[-1] == (f"writing {path}", len(content), len(content))
        assert fastprof.load(path).names == ("a", "f.py(1): f")


@pytest.mark.parametrize("suffix", [".json", ".fastprof"])
@pytest.mark.parametrize("letter", ["n", "\U0001f600"])
def test_files_with_the_longest_names(tmp_path: Path, letter: str, suffix: str) -> None:
    path = tmp_path / (letter * ((255 - len(suffix)) // len(letter.encode())) + suffix)
    table().export(path)
    assert list(tmp_path.iterdir()) == [path] and len(fastprof.load(path)) == 2


def test_warnings_of_a_writer_are_lines(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def warn(table: Any, path: str, threads: bool) -> None:
        assert threads is True
        warnings.warn("stacks were cut", stacklevel=1)
        warnings.warn("stacks were cut again", stacklevel=1)

    monkeypatch.setattr(range_stacks, "export_range_stacks", warn)
    formats.write_table(table(), str(tmp_path / "t.folded"), "folded")
    assert capsys.readouterr().err == "fastprof: stacks were cut\nfastprof: stacks were cut again\n"


def test_a_loaded_trace_is_used_like_a_profile(tmp_path: Path) -> None:
    with (
        fastprof.profile() as prof,
        fastprof.record_function("outer"),
        fastprof.record_function("in"),
    ):
        pass
    first, second = tmp_path / "a.json.gz", tmp_path / "b.pftrace"
    prof.export(first)
    fastprof.load(first).export(second)
    trace = fastprof.load(second)
    assert [event.name for event in trace.events()] == ["outer", "in"]
    averages = trace.key_averages()
    assert [(row.key, row.count) for row in averages] == [("outer", 1), ("in", 1)]
    assert "outer" in trace.table(row_limit=1)

    averages.export(tmp_path / "averages.csv")
    trace.events().export(tmp_path / "events", format="csv")
    for name in ("averages.csv", "events"):
        assert (tmp_path / name).read_text().splitlines()[1].startswith("outer,")
    with pytest.raises(errors.StateError, match=r"averages have no times.*Use events\(\)"):
        fastprof.save(averages, tmp_path / "a.fastprof")
    with pytest.raises(errors.StateError, match=r"averages as chrome.*Use \.csv, or export events"):
        averages.export(tmp_path / "averages.json")
