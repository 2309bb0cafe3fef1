# SPDX-License-Identifier: Apache-2.0
"""SqliteFile: tables of another profiler's SQLite database, as columns of integers.

The file is untrusted: it is opened read-only, no code of its schema runs (views and triggers are ignored), and each
value is checked before it becomes a 64-bit integer.
"""

from __future__ import annotations

import itertools
import os
import sqlite3
import tempfile
from collections.abc import Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeAlias
from urllib.request import pathname2url

import numpy as np
from numpy.typing import NDArray

from fastprof import _core
from fastprof.base import errors
from fastprof.model.columns import CodedColumn

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fastprof.importers.source import Source

__all__ = ["SqliteFile"]

Array: TypeAlias = NDArray[Any]

_PIECE_BYTES = 1 << 22
_CELL_BYTES = (
    48  # memory of a value while SQLite reads it: the integer, and its part of the row's tuple
)
_SCANNED_BYTES = 20  # memory of a number that is read natively, with room for growth
_MAX_NAME_CHARS = 4000


class SqliteFile:
    """An open database. Close it, or use it in a with block. Use on one thread."""

    def __init__(self, source: Source) -> None:
        """Open the file, or a temporary copy if it is compressed or has no path.

        Raises errors.FormatError if it is not a database, errors.IoError if it cannot be copied.
        """
        self._source = source
        self.path = source.path
        self._copy = ""
        path = self._path = source.path
        if source.compressed or not source.can_map:
            path = self._path = self._copy = _copy_of(source)
        # immutable: SQLite takes no lock and neither reads nor writes a journal.
        self._connection = sqlite3.connect(
            f"file:{pathname2url(os.path.abspath(path))}?mode=ro&immutable=1", uri=True
        )
        try:
            with self._errors_named():
                self._connection.execute("PRAGMA trusted_schema = OFF")
                self._tables = {
                    str(name)
                    for (name,) in self._connection.execute(
                        "SELECT name FROM sqlite_master WHERE type = 'table'"
                    )
                }
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> SqliteFile:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the database and remove a copy of it."""
        self._connection.close()
        if self._copy:
            os.unlink(self._copy)
            self._copy = ""

    def check_memory(self, size_bytes: int) -> None:
        """Raise errors.FormatError if `size_bytes` more would exceed the limit of memory."""
        self._source.budget.check(size_bytes)

    def has(self, table: str) -> bool:
        """Return whether there is a table of that name."""
        return table in self._tables

    def columns(self, table: str) -> frozenset[str]:
        """Return the names of a table's columns; empty if there is no such table."""
        if table not in self._tables:
            return frozenset()
        with self._errors_named():
            found = self._connection.execute(f"PRAGMA table_info({_quoted(table)})").fetchall()
        return frozenset(str(row[1]) for row in found)

    def integers(
        self,
        table: str,
        columns: Sequence[str],
        optional: Sequence[str] = (),
        *,
        absent: int = 0,
        only: tuple[str, Sequence[int]] | None = None,
    ) -> Sequence[Array]:
        """Return columns, then optional ones, as int64 arrays of equal length, in the order of the rows.

        Returns empty arrays without the table. optional: columns that the table may lack; `absent` replaces a
        missing column and NULL in them. only: one of `columns`, and its values in the rows to return.
        Reads the file's pages natively if the table is a plain one: 1/20 of the time that sqlite3 takes.

        Raises errors.FormatError, naming table and column, for a column that is missing and for a value that is
        not a 64-bit integer.
        """
        width = len(columns) + len(optional)
        if table not in self._tables:
            return [np.zeros(0, np.int64)] * width
        known = self.columns(table)
        for column in columns:
            if column not in known:
                raise errors.FormatError(f"{self.path}: the table {table} has no column {column!r}")
        present = [column for column in optional if column in known]
        found = self._scanned(table, columns, optional, absent)
        if found is not None:
            if only is None:
                return found
            chosen_rows = np.flatnonzero(np.isin(found[list(columns).index(only[0])], only[1]))
            return [column[chosen_rows] for column in found]
        chosen = [_quoted(column) for column in columns]
        chosen += [
            f"ifnull({_quoted(c)}, {absent})" if c in known else str(absent) for c in optional
        ]
        wrong = [f"typeof({_quoted(c)}) <> 'integer'" for c in columns]
        wrong += [f"typeof({_quoted(c)}) NOT IN ('integer', 'null')" for c in present]
        rows_of = f"FROM {_quoted(table)}"
        if only is not None:
            rows_of += f" WHERE {_quoted(only[0])} IN ({', '.join(map(str, only[1]))})"
        with self._errors_named():
            count, bad = self._connection.execute(
                f"SELECT count(*), sum({' OR '.join(wrong)}) {rows_of}"
            ).fetchone()
            if bad:
                self._refuse(table, [*columns, *present], wrong, rows_of)
            self.check_memory(count * width * _CELL_BYTES)
            rows = self._connection.execute(f"SELECT {', '.join(chosen)} {rows_of}")
            flat = np.fromiter(itertools.chain.from_iterable(rows), np.int64, count * width)
        return list(flat.reshape(-1, width).T)

    def _scanned(
        self, table: str, columns: Sequence[str], optional: Sequence[str], absent: int
    ) -> Sequence[Array] | None:
        """Return columns as integers() does, from the file's pages; None if SQLite must read them."""
        with self._errors_named():
            (root,) = self._connection.execute(
                "SELECT rootpage FROM sqlite_master WHERE type = 'table' AND name = ?", (table,)
            ).fetchone()
            described = self._connection.execute(f"PRAGMA table_xinfo({_quoted(table)})").fetchall()
        place: dict[str, int] = {}
        for index, name, kind, _, _, key, hidden in described:
            if hidden:  # a generated column, which the records may lack
                return None
            # Other types may change an integer when it is read; the row's id is not in its record.
            if "INT" in str(kind).upper() and not key:
                place[str(name)] = int(index)
        known = {str(row[1]) for row in described}
        present = [name for name in (*columns, *optional) if name in known]
        if not place.keys() >= set(present) or not isinstance(root, int) or not 0 < root < 1 << 32:
            return None
        is_optional = set(optional)
        wanted = [(place[name], name in is_optional, absent) for name in present]
        most = self._source.budget.limit_bytes // (_SCANNED_BYTES * max(len(wanted), 1))
        with open(self._path, "rb") as file:
            arrays = _core.scan_sqlite_table(file.fileno(), root, wanted, most)
        if arrays is None or not arrays:
            return None
        found = dict(zip(present, arrays, strict=True))
        size = len(arrays[0])
        missing = np.broadcast_to(np.int64(absent), size)
        return [found.get(name, missing) for name in (*columns, *optional)]

    def _refuse(
        self, table: str, columns: Sequence[str], wrong: Sequence[str], rows_of: str
    ) -> None:
        joint = "AND" if " WHERE " in rows_of else "WHERE"
        for column, condition in zip(columns, wrong, strict=True):
            for (value,) in self._connection.execute(
                f"SELECT {_quoted(column)} {rows_of} {joint} {condition} LIMIT 1"
            ):
                raise errors.FormatError(
                    f"{self.path}: expected an integer in column {column!r} of the table {table}, "
                    f"found {str(value)[:40]!r}"
                )

    def strings(self, table: str, key: str, value: str) -> dict[int, str]:
        """Return the texts of a table by number; {} without the table. Texts over 4000 characters end in "..."."""
        known = self.columns(table)
        if not {key, value} <= known:
            return {}
        found: dict[int, str] = {}
        with self._errors_named():
            size = self._one(f"SELECT sum(length({_quoted(value)})) FROM {_quoted(table)}") or 0
            count = self._one(f"SELECT count(*) FROM {_quoted(table)}")
            self.check_memory(count * 200 + min(size, count * _MAX_NAME_CHARS) * 4)
            for number, text in self._connection.execute(
                f"SELECT {_quoted(key)}, substr({_quoted(value)}, 1, {_MAX_NAME_CHARS + 1}) "
                f"FROM {_quoted(table)}"
            ):
                if type(number) is int and isinstance(text, str):
                    found[number] = text if len(text) <= _MAX_NAME_CHARS else text[:-1] + "..."
        return found

    def distinct_texts(self, table: str, column: str) -> CodedColumn | None:
        """Return a column's texts, cut as by strings(), with code -1 for no text; None without the column."""
        if column not in self.columns(table):
            return None
        name, where = _quoted(column), _quoted(table)
        with self._errors_named():
            count = self._one(f"SELECT count(*) FROM {where}")
            size = self._one(f"SELECT sum(min(length({name}), {_MAX_NAME_CHARS})) FROM {where}")
            self.check_memory(count * 200 + size * 4)
            codes, index = np.full(count, -1, np.int32), dict[str, int]()
            rows = self._connection.execute(
                f"SELECT CASE typeof({name}) WHEN 'text' THEN substr({name}, 1, {_MAX_NAME_CHARS + 1}) END "
                f"FROM {where}"
            )
            for row, (text,) in enumerate(rows):
                if text is not None:
                    cut = text if len(text) <= _MAX_NAME_CHARS else text[:-1] + "..."
                    codes[row] = index.setdefault(cut, len(index))
        return CodedColumn(codes, tuple(index))

    def _one(self, query: str) -> int:
        (value,) = self._connection.execute(query).fetchone()
        return int(value or 0)

    @contextmanager
    def _errors_named(self) -> Iterator[None]:
        try:
            yield
        except (sqlite3.Error, sqlite3.Warning, OverflowError, UnicodeDecodeError) as error:
            raise errors.FormatError(f"{self.path}: damaged SQLite database: {error}") from None


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _copy_of(source: Source) -> str:
    """Write the source to a temporary file; return its path."""
    path = ""
    try:
        number, path = tempfile.mkstemp(prefix="fastprof-", suffix=".sqlite")
        with open(number, "wb") as file:
            while piece := source.read(_PIECE_BYTES):
                file.write(piece)
    except BaseException as error:
        if path:
            os.unlink(path)
        if not isinstance(error, OSError) or isinstance(error, errors.IoError):
            raise
        reason = error.strerror or str(error)
        raise errors.IoError(
            error.errno,
            f"cannot copy {source.path} to a temporary file: {reason}. Free space, or set TMPDIR to "
            "another folder.",
        ) from None
    return path
