# SPDX-License-Identifier: Apache-2.0
"""Texts of an SQLite file: long ones are cut, with a mark; wrong integers are named; copies are removed."""

from __future__ import annotations

import gzip
import io
import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from fastprof import errors
from fastprof.importers.source import Source
from fastprof.importers.sqlite_file import SqliteFile


def made(path: Path, rows: list[tuple[Any, Any]]) -> Path:
    database = sqlite3.connect(path)
    database.execute('CREATE TABLE "a ""name" (id, "the ""text")')
    database.executemany('INSERT INTO "a ""name" VALUES (?, ?)', rows)
    database.commit()
    database.close()
    return path


@contextmanager
def opened(path: Any, memory_bytes: int = 1 << 30) -> Iterator[SqliteFile]:
    with Source(path, 1 << 30, 1 << 30, memory_bytes) as source, SqliteFile(source) as database:
        yield database


TABLE, TEXT = 'a "name', 'the "text'


def test_a_wrong_integer_is_named(tmp_path: Path) -> None:
    path = made(tmp_path / "d", [(1, 5), (2, "five " * 20), (3, None)])
    found = "found " + repr(("five " * 20)[:40])
    with opened(path) as database:
        with pytest.raises(errors.FormatError) as failed:
            database.integers(TABLE, ["id", TEXT])
        assert (
            f"{path}: expected an integer in column {TEXT!r} of the table {TABLE}, {found}"
            == str(failed.value)
        )
        with pytest.raises(errors.FormatError, match="found 'None'"):
            database.integers(TABLE, ["id", TEXT], only=("id", [1, 3]))
        assert [c.tolist() for c in database.integers(TABLE, [TEXT, "id"], only=("id", [1]))] == [
            [5],
            [1],
        ]
        optional = database.integers(TABLE, ["id"], [TEXT, "no"], absent=-3, only=("id", [3, 1]))
        assert [c.tolist() for c in optional] == [[1, 3], [5, -3], [-3, -3]]
        with pytest.raises(errors.FormatError, match=f"the table {TABLE} has no column 'no'"):
            database.integers(TABLE, ["no"])
        assert [len(column) for column in database.integers("none", ["a"], ["b", "c"])] == [0, 0, 0]


def test_compressed_and_streamed_databases_are_copied_and_the_copy_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = made(tmp_path / "d", [(1, "one")])
    copies = tmp_path / "copies"
    copies.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(copies))
    (tmp_path / "d.gz").write_bytes(gzip.compress(path.read_bytes()))
    for file, copied in ((path, 0), (tmp_path / "d.gz", 1), (io.BytesIO(path.read_bytes()), 1)):
        with opened(file) as database:
            assert len(list(copies.iterdir())) == copied
            assert database.strings(TABLE, "id", TEXT) == {1: "one"}
            assert database.integers(TABLE, ["id"])[0].tolist() == [1]
        assert not list(copies.iterdir())
    bad = io.BytesIO(path.read_bytes()[:100] + bytes(4000))
    with pytest.raises(errors.FormatError, match="damaged SQLite database"), opened(bad):
        pass
    assert not list(copies.iterdir())
