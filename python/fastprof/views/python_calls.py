# SPDX-License-Identifier: Apache-2.0
"""PythonCallStats: the Python calls of a profile summed by function, with cProfile's numbers and formats.

The rules are those of cProfile (CPython, Modules/_lsprof.c): a call is primitive if its function is
not among its callers; cumulative time is that of primitive calls; the times of a caller and callee
pair follow the same rule within the pair.
"""

from __future__ import annotations

import contextlib
import json
import marshal
import os
import re
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from fastprof import _core
from fastprof.base import errors
from fastprof.base.atomic_file import atomic_binary
from fastprof.base.cached_property import cached_property
from fastprof.base.formatting import first_rows
from fastprof.base.short_paths import shorten_paths
from fastprof.base.text_style import cut_to_width
from fastprof.model.blocking_calls import awaited
from fastprof.model.call_origins import is_import
from fastprof.model.nesting import nest_intervals, sum_by
from fastprof.model.sites import SHORTER_CALLS
from fastprof.model.table import EventFlag, EventTable

__all__ = ["CalledFunction", "PythonCallStats", "export_pstats"]

Array: TypeAlias = NDArray[Any]
_FUNCTION = re.compile(r"(.*)\((\d+)\): (.*)", re.DOTALL)
_MIN_PLACE = 20  # characters of a function's place, at least
_SORT_KEYS = ("own_ns", "cumulative_ns", "calls", "function")


class CalledFunction(NamedTuple):
    """A function and the sums of its calls. For functions written in C, file is "~" and line 0, as in pstats.

    calls: number of calls. primitive_calls: those that are not, directly or indirectly, recursive. own_ns: time
    in the function without the calls that it made. cumulative_ns: time of primitive calls, with the calls made.
    """

    file: str
    line: int
    function: str
    calls: int
    primitive_calls: int
    own_ns: int
    cumulative_ns: int


class PythonCallStats:
    """The Python calls of a table by function; `str()` is a text table.

    Calls that were on the stack when the profile started are not counted. table: with rows of category
    python_function. Any thread.

        print(prof.python_calls().table(row_limit=20))
        prof.python_calls().to_pstats().sort_stats("cumulative").print_callers()
    """

    def __init__(self, table: EventTable) -> None:
        self._table = table

    def __len__(self) -> int:
        return len(self.functions)

    def __str__(self) -> str:
        return self.table()

    # ---- sums ----------------------------------------------------------------------------------

    @cached_property
    def _rows(self) -> Array:
        """Table rows of the calls, by begin within each thread."""
        kept = self._table.column("is_python_function")
        if self._table.has("is_python_function"):  # of samples, too (decode/sample_rows.py)
            calls = self._table.sites.column("is_python_function")
            kept = kept & calls[self._table.column("site")]
        if self._table.has("flags"):
            kept = kept & ((self._table.column("flags") & EventFlag.ENCLOSING) == 0)
        rows = np.flatnonzero(kept)
        has_tasks = any(track.thread_id >= 0 for track in self._table.tracks)
        if self._table.begin_ordered and not has_tasks:
            return rows
        # Sort each thread's rows by begin, callers first: rows of its tasks are on other tracks.
        start, end = self._table.start_ns[rows], self._table.end_ns[rows]
        order: Array = np.lexsort((-end, start, self._table.recording_thread[rows]))
        return rows[order]

    @cached_property
    def _parent(self) -> Array:
        """Index of each call's caller among the calls, int32; -1 for none.

        Only calls are nested, because a range that begins in a call and outlives it is the parent, in the
        table, of calls that it did not make. Calls nest by thread: a step of a task is called by its event
        loop.
        """
        rows = self._rows
        return nest_intervals(
            self._table.start_ns[rows], self._table.end_ns[rows], self._table.recording_thread[rows]
        )

    @cached_property
    def _keys(self) -> tuple[Array, list[tuple[str, int, str]]]:
        """(function number of each call, (file, line, function) by number)."""
        sites = self._table.sites
        numbers: dict[tuple[str, int, str], int] = {}
        of_site = np.zeros(len(sites), np.int32)
        calls = sites.column("is_python_function")
        functions = sites.field("function")
        for site, name in enumerate(sites.names):
            if calls[site]:
                key = _key_of(name, functions[site])
                of_site[site] = numbers.setdefault(key, len(numbers))
        return of_site[self._table.column("site")[self._rows]], list(numbers)

    @cached_property
    def _times_ns(self) -> tuple[Array, Array]:
        """(time, own time) of each call."""
        total = self._table.duration_ns[self._rows]
        # Code 0 collects the calls without a caller.
        return total, total - sum_by(self._parent + 1, total, len(total) + 1)[1:]

    @cached_property
    def _count(self) -> Array | None:
        """Number of calls that each row represents (decode/short_calls.py); None if each represents one."""
        arguments = self._table.coded.get("metadata_json")
        if arguments is None or SHORTER_CALLS not in self._table.sites.names:
            return None
        by_code = [1] * len(arguments.values)
        for code, text in enumerate(arguments.values):
            with contextlib.suppress(ValueError, KeyError, TypeError):
                by_code[code] = int(json.loads(text)["calls"])
        shorter = np.array([name == SHORTER_CALLS for name in self._table.sites.names])
        codes = arguments.codes[self._rows]
        stands = shorter[self._table.column("site")[self._rows]] & (codes >= 0)
        return np.where(stands, np.array([*by_code, 1])[codes], 1)

    def _is_nested(self, code: Array, codes: int) -> Array:
        code = np.ascontiguousarray(code, np.int32)
        return _core.nested_codes(parent=self._parent, code=code, codes=codes)

    def _sums(self, code: Array, codes: int) -> Array:
        """Return (calls, primitive calls, own ns, cumulative ns) by code, int64, shape (codes, 4)."""
        total, own = self._times_ns
        counted = code >= 0
        primitive = counted.copy()
        shifted = np.where(counted, code, codes)
        primitive &= ~self._is_nested(shifted, codes + 1)
        sums = np.zeros((codes, 4), np.int64)
        for number, chosen in enumerate((counted, primitive)):
            weights = None if self._count is None else self._count[chosen]
            sums[:, number] = np.bincount(code[chosen], weights, minlength=codes)
        sums[:, 2] = sum_by(code[counted], own[counted], codes)
        sums[:, 3] = sum_by(code[primitive], total[primitive], codes)
        return sums

    @cached_property
    def functions(self) -> list[CalledFunction]:
        """Every function that was called, by own time, longest first."""
        code, keys = self._keys
        sums = self._sums(code, len(keys))
        found = [
            CalledFunction(*key, *numbers)
            for key, numbers in zip(keys, sums.tolist(), strict=True)
            if numbers[0]
        ]
        return sorted(found, key=lambda f: -f.own_ns)

    @cached_property
    def _callers(self) -> dict[tuple[int, int], list[int]]:
        """(callee, caller) -> (calls, primitive calls, own ns, cumulative ns)."""
        code, keys = self._keys
        inner = self._parent >= 0
        pair = np.full(len(code), -1, np.int64)
        pair[inner] = code[inner].astype(np.int64) * len(keys) + code[self._parent[inner]]
        values, compact = np.unique(pair[inner], return_inverse=True)
        number = np.full(len(code), -1, np.int32)
        number[inner] = compact.reshape(-1)
        sums = self._sums(number, len(values))
        return {
            divmod(value, len(keys)): row
            for value, row in zip(values.tolist(), sums.tolist(), strict=True)
        }

    # ---- output --------------------------------------------------------------------------------

    def _pstats_dict(self) -> dict[Any, Any]:
        _, keys = self._keys
        if not len(self._rows):  # pstats reads no file without functions
            raise errors.ValueError(
                "no Python calls were recorded, and statistics of calls (.pstats) consist of them. Profile with "
                "python_calls=True (the commands: --calls), or write samples as .folded, .pprof or .speedscope.json."
            )
        callers: dict[int, dict[Any, Any]] = {}
        for (callee, caller), (calls, primitive, own, cumulative) in self._callers.items():
            callers.setdefault(callee, {})[keys[caller]] = (
                calls,
                primitive,
                own / 1e9,
                cumulative / 1e9,
            )
        number = {key: i for i, key in enumerate(keys)}
        return {
            f[:3]: (
                f.primitive_calls,
                f.calls,
                f.own_ns / 1e9,
                f.cumulative_ns / 1e9,
                callers.get(number[f[:3]], {}),
            )
            for f in self.functions
        }

    def to_pstats(self) -> Any:
        """Return a pstats.Stats with the same numbers, in seconds. Raises errors.ValueError without calls."""
        import pstats

        profile: Any = _Profile(self._pstats_dict())
        return pstats.Stats(profile)

    def export_pstats(self, path: str | os.PathLike[str]) -> None:
        """Write cProfile's own file format, which pstats, snakeviz, gprof2dot and tuna read.

        Raises errors.ValueError without calls, errors.IoError if the file cannot be written.
        """
        stats = self._pstats_dict()
        with atomic_binary(path) as file:
            marshal.dump(stats, file)

    def calls_table(self) -> EventTable:
        """Return the table of the calls alone, for exporters of trees: collapsed stacks, speedscope."""
        return self._table[self._rows]

    def export_stacks(self, path: str | os.PathLike[str]) -> None:
        """Write the call tree as collapsed stacks with own times in ns, for flame graphs."""
        from fastprof.exporters.range_stacks import export_range_stacks

        export_range_stacks(self.calls_table(), path, threads=True)

    def export_speedscope(self, path: str | os.PathLike[str]) -> None:
        """Write the call tree for https://www.speedscope.app."""
        from fastprof.exporters.speedscope import export_speedscope

        export_speedscope(self.calls_table(), path, self._table.process_name or "fastprof")

    def table(
        self,
        sort_by: str = "own_ns",
        row_limit: int = 30,
        *,
        imports: bool = True,
        waits: bool = True,
        max_width: int | None = None,
        all_rows: str = "row_limit=-1",
    ) -> str:
        """Return a text table, like cProfile's.

        row_limit: -1 for all rows. imports, waits: list imports, and calls that wait for a
        thread or for events, too. max_width: characters per line; None: any. Paths are
        relative to the working folder or to the folder of installed packages; places that are too long are cut in
        their middle. all_rows: what shows all rows, for the line that says how many are left out. sort_by: own_ns,
        cumulative_ns or calls, descending, or function; errors.ValueError otherwise.
        """
        if sort_by not in _SORT_KEYS:
            raise errors.ValueError(
                f"cannot sort calls by {sort_by!r}. Use one of {', '.join(_SORT_KEYS)}."
            )
        rows = self.functions
        if not imports:
            rows = [f for f in rows if not (f.file == "~" and is_import(f.function))]
        if not waits:
            rows = [f for f in rows if not awaited(_name_of(f))]
        if sort_by == "function":
            rows = sorted(rows, key=lambda f: (f.file, f.line, f.function))
        else:
            rows = sorted(rows, key=lambda f: -int(getattr(f, sort_by)))
        calls = sum(f.calls for f in rows)
        primitive = sum(f.primitive_calls for f in rows)
        own_ns = sum(f.own_ns for f in rows)
        head = (
            f"{calls} calls ({primitive} primitive) of {len(rows)} functions, {own_ns / 1e6:.3f} ms"
        )
        shown = first_rows(rows, row_limit)
        cells = [("calls", "own ms", "own us/call", "total ms"), *map(_numbers_of, shown)]
        least = (0, 0, 0, 0) if max_width is not None else (15, 11, 11, 11)
        widths = [max(map(len, c), default=0) for c in zip(*cells, strict=True)]
        widths = [max(width, n) for width, n in zip(widths, least, strict=True)]
        room = None if max_width is None else max(max_width - sum(widths) - 5, _MIN_PLACE)
        lines = [head]
        for numbers, place in zip(cells, ["function", *map(_place_of, shown)], strict=True):
            cut = place if room is None else cut_to_width(place, room).rstrip()
            padded = [text.rjust(width) for text, width in zip(numbers, widths, strict=True)]
            lines.append(f"{' '.join(padded)}  {cut}")
        if len(shown) < len(rows):
            lines.append(f"{len(rows) - len(shown)} more; {all_rows} shows all")
        return "\n".join(lines)


def _numbers_of(function: CalledFunction) -> tuple[str, ...]:
    count = str(function.calls)
    if function.primitive_calls != function.calls:
        count += f"/{function.primitive_calls}"
    own = function.own_ns
    times = (own / 1e6, own / function.calls / 1e3, function.cumulative_ns / 1e6)
    return (count, *(f"{time:.3f}" for time in times))


def _name_of(function: CalledFunction) -> str:
    built_in = function.file == "~"
    return (
        function.function if built_in else f"{function.file}({function.line}): {function.function}"
    )


def _place_of(function: CalledFunction) -> str:
    if function.file == "~":
        return function.function
    short = shorten_paths(f"{function.file}({function.line}): ")
    return f"{short.rpartition('(')[0]}:{function.line}({function.function})"


class _Profile:
    """The profiler interface that pstats.Stats requires."""

    def __init__(self, stats: dict[Any, Any]) -> None:
        self.stats = stats

    def create_stats(self) -> None:
        """Do nothing: `stats` is complete."""


def _key_of(name: str, function: str | None) -> tuple[str, int, str]:
    found = _FUNCTION.fullmatch(name)
    if found is not None and not name.startswith("<built-in "):
        return found[1], int(found[2]), found[3]
    return "~", 0, function or name


def export_pstats(table: EventTable, path: str | os.PathLike[str]) -> None:
    """Write the Python calls of a table as PythonCallStats.export_pstats() does."""
    PythonCallStats(table).export_pstats(path)
