# SPDX-License-Identifier: Apache-2.0
"""Integer columns read from an SQLite file's pages are those that SQLite reads; what is unusual is SQLite's."""

from __future__ import annotations

import contextlib
import gzip
import random
import sqlite3
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fastprof import errors
from fastprof.importers.source import Source
from fastprof.importers.sqlite_file import SqliteFile

EDGES = [
    0, 1, -1, 127, -128, 128, 32767, -32768, 8388607, -8388608, 2**31 - 1, -(2**31), 2**47 - 1, -(2**47),
]  # fmt: skip
EDGES += [2**63 - 1, -(2**63)]


def made(path: Path, *statements: str, rows: list[tuple[Any, ...]], page_size: int = 4096) -> None:
    path.unlink(missing_ok=True)
    database = sqlite3.connect(path)
    database.execute(f"PRAGMA page_size = {page_size}")
    create, *later = statements
    database.execute(create)
    if rows:
        database.executemany(f"INSERT INTO t VALUES ({', '.join('?' * len(rows[0]))})", rows)
    for statement in later:
        database.execute(statement)
    database.commit()
    database.close()


def read(path: Path, *columns: str, optional: tuple[str, ...] = ()) -> Any:
    with Source(path, 1 << 30, 1 << 30) as source, SqliteFile(source) as database:
        return [column.tolist() for column in database.integers("t", columns, optional, absent=-7)]


def oracle(path: Path, *columns: str) -> list[list[Any]]:
    """Return the columns as sqlite3 does."""
    with contextlib.closing(sqlite3.connect(path)) as database:
        rows = database.execute(f"SELECT {', '.join(columns)} FROM t").fetchall()
    return [list(column) for column in zip(*rows, strict=True)] or [[] for _ in columns]


@pytest.mark.parametrize("page_size", [512, 4096, 65536])
def test_random_tables_are_read_alike(tmp_path: Path, page_size: int) -> None:
    rng = random.Random(page_size)
    rows = [
        (rng.choice(EDGES), rng.choice([None, rng.choice(EDGES)]), "x" * rng.randrange(30), rng.randrange(10**9))
        for _ in range(5000)
    ]  # fmt: skip
    path = tmp_path / "d"
    made(
        path,
        "CREATE TABLE t (a INTEGER NOT NULL, b INT, c TEXT, d BIGINT)",
        rows=rows,
        page_size=page_size,
    )
    found = read(path, "d", "a", optional=("b", "none"))
    assert found == oracle(path, "d", "a", "ifnull(b, -7)", "-7")
    assert found[1] == [row[0] for row in rows]


UNUSUAL: list[tuple[str, Callable[[Path], None]]] = [
    ("a column that was added later", lambda p: made(
        p, "CREATE TABLE t (a INTEGER)", "ALTER TABLE t ADD COLUMN b INTEGER DEFAULT 5", rows=[(1,), (2,)])),
    ("no rowid", lambda p: made(p, "CREATE TABLE t (a INT, b INT PRIMARY KEY) WITHOUT ROWID", rows=[(1, 2), (3, 1)])),
    ("the row's id", lambda p: made(p, "CREATE TABLE t (a INT, b INTEGER PRIMARY KEY)", rows=[(1, 2), (3, 1)])),
    ("real numbers", lambda p: made(p, "CREATE TABLE t (a INT, b REAL)", rows=[(1, 2), (3, 1)])),
    ("text that is a number", lambda p: made(p, "CREATE TABLE t (a INT, b TEXT)", rows=[(1, "2")])),
    ("a generated column", lambda p: made(
        p, "CREATE TABLE t (a INT, c INT AS (a + 1), b INT)", rows=[(1, 2), (3, 1)])),
    ("behind an overflowing text", lambda p: made(
        p, "CREATE TABLE t (c TEXT, a INT, b INT)", rows=[("x" * 9000, 1, 2)])),
    ("NULL in a required column", lambda p: made(p, "CREATE TABLE t (a INT, b INT)", rows=[(1, None)])),
    ("a real in a column of integers", lambda p: made(p, "CREATE TABLE t (a INT, b INT)", rows=[(1, 2.5)])),
]  # fmt: skip


@pytest.mark.parametrize(("what", "make"), UNUSUAL, ids=[what for what, _ in UNUSUAL])
def test_unusual_tables_are_sqlites(
    tmp_path: Path, what: str, make: Callable[[Path], None]
) -> None:
    path = tmp_path / "d"
    make(path)
    expected = oracle(path, "a", "b")
    if all(type(value) is int for column in expected for value in column):
        assert read(path, "a", "b") == expected
    else:
        with pytest.raises(errors.FormatError, match="expected an integer in column 'b'"):
            read(path, "a", "b")


def test_an_overflowing_text_behind_the_columns_is_skipped(tmp_path: Path) -> None:
    path = tmp_path / "d"
    made(
        path, "CREATE TABLE t (a INT, b INT, c TEXT)", rows=[(i, -i, "x" * 9000) for i in range(50)]
    )
    assert read(path, "a", "b") == [list(range(50)), [-i for i in range(50)]]


def test_chosen_rows_and_empty_tables(tmp_path: Path) -> None:
    path = tmp_path / "d"
    made(path, "CREATE TABLE t (a INT, b INT)", rows=[(i % 5, i) for i in range(40)])
    with Source(path, 1 << 30, 1 << 30) as source, SqliteFile(source) as database:
        found = [c.tolist() for c in database.integers("t", ("b", "a"), only=("a", (1, 3)))]
    assert found == oracle(path, "b", "a FROM t WHERE a IN (1, 3) --")
    made(path, "CREATE TABLE t (a INT, b INT)", rows=[])
    assert read(path, "a", "b") == [[], []]


def test_damaged_pages_are_read_or_refused(tmp_path: Path) -> None:
    """A damaged page gives numbers, or SQLite's error; never another exception."""
    rng = random.Random(4)
    path = tmp_path / "d"
    made(path, "CREATE TABLE t (a INT, b INT)", rows=[(i, i) for i in range(3000)], page_size=512)
    data = path.read_bytes()
    messages: list[str] = []
    for _ in range(150):
        damaged = bytearray(data)
        for _ in range(rng.randrange(1, 8)):
            damaged[rng.randrange(512, len(damaged))] = rng.randrange(256)
        path.write_bytes(bytes(damaged))
        try:
            read(path, "a", "b")
        except errors.FormatError as error:
            messages.append(str(error))
    assert messages and all(str(path) in message for message in messages)


def test_a_copy_that_cannot_be_written_is_an_error_with_a_remedy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "t.sqlite.gz"
    made(tmp_path / "t.sqlite", "CREATE TABLE t(a INTEGER)", rows=[(1,)])
    path.write_bytes(gzip.compress((tmp_path / "t.sqlite").read_bytes()))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "missing"))
    with pytest.raises(errors.IoError, match=r"cannot copy .*t\.sqlite\.gz.*TMPDIR"):
        read(path, "a")
