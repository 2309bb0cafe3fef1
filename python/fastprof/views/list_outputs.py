# SPDX-License-Identifier: Apache-2.0
"""ListOutputs: the methods of EventList that return text, draw, convert or write files."""

from __future__ import annotations

import os
from typing import Any

from fastprof import _outputs
from fastprof._outputs import output
from fastprof.base import errors
from fastprof.model.table import EventTable
from fastprof.views.frame import EventFrame
from fastprof.views.row_list import RowList, T
from fastprof.views.table_rows import AverageRows

__all__ = ["ListOutputs"]

_SHORT_ROWS = 30


class ListOutputs(RowList[T]):
    """Base of EventList: a method for each output. Renderers and exporters are loaded on first use (_outputs.py)."""

    _use_device: str | None
    _profile_memory: bool
    _with_flops: bool

    # Implemented by EventList.
    def _frame(self) -> EventFrame:
        raise NotImplementedError

    def _is_averages(self) -> bool:
        raise NotImplementedError

    def to_table(self) -> EventTable:
        """Return the list's EventTable; see EventList."""
        raise NotImplementedError

    # ---- text ----------------------------------------------------------------------------------

    def table(
        self,
        sort_by: str | None = None,
        row_limit: int | None = 100,
        max_src_column_width: int | None = 75,
        max_name_column_width: int | None = 55,
        max_shapes_column_width: int | None = 80,
        header: str | None = None,
        top_level_events_only: bool = False,
        time_unit: str | None = None,
        *,
        max_stack_lines: int | None = None,
        flops_per_s: bool = False,
        max_width: int | None = None,
    ) -> str:
        """Return the list as a text table; "" if it is empty.

        sort_by: a key of render.SORT_KEYS, in descending order; default: list order; errors.ValueError
        for another key. row_limit: rows to print, -1 for all. max_*_column_width: in characters, None
        for no limit. header: a line above the table. top_level_events_only: only rows without a parent.
        time_unit: "s", "ms" or "us" for all times; default: by magnitude. max_stack_lines: stack lines
        per row. flops_per_s: add a column of FLOPs per second. max_width: characters per line, for
        example of a terminal: names are cut and, if necessary, columns are left out and named in a last
        line.
        """
        options = output("options")(
            sort_by,
            row_limit,
            max_src_column_width,
            max_name_column_width,
            max_shapes_column_width,
            header,
            top_level_events_only,
            time_unit,
            max_stack_lines,
            flops_per_s,
            self._profile_memory,
            self._with_flops,
            max_width,
        )
        return str(output("table")(self._frame(), options))

    def tree_text(
        self,
        max_depth: int | None = None,
        min_percent: float = 0.0,
        time_unit: str | None = None,
        *,
        max_width: int | None = None,
    ) -> str:
        """Return the tree of ranges as text, merged by name path: total and self time, share and count.

        max_depth: levels; default: all. min_percent: leave out branches with less of the total time.
        time_unit: "s", "ms" or "us" for all times. max_width: characters per line. Control characters
        of names appear as symbols. "" if the list is empty; errors.StateError for a list of averages.

            print(prof.events().tree_text(max_depth=4, min_percent=1))
        """
        if self._of_averages():
            raise errors.StateError("averages have no tree. Use prof.events().tree_text().")
        options = output("tree_options")(max_depth, min_percent, time_unit, max_width)
        return str(output("tree")(self, options))

    # Beside _repr_pretty_: IPython takes the first class in the order of bases that has either.
    def __repr__(self) -> str:
        return f"[{', '.join(map(repr, self))}]"

    def __str__(self) -> str:
        return self.table()

    def _repr_html_(self) -> str:
        """Return the first 100 rows as a sortable HTML table, for notebooks; averages by self time."""
        options = output("options")(
            sort_by="self_cpu_time_total" if self._of_averages() else None,
            profile_memory=self._profile_memory,
            with_flops=self._with_flops,
        )
        return str(output("html")(self._frame(), options))

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        """Print the first rows where IPython shows text; repr() would make an object of every event."""
        printer.text(self._short_text())

    def _short_text(self) -> str:
        if len(self) == 0:
            return "[]"
        by_time = "self_cpu_time_total" if self._of_averages() else None
        text = self.table(sort_by=by_time, row_limit=_SHORT_ROWS)
        more = len(self) - _SHORT_ROWS
        return text + (
            f"{more:,} more rows: print(events.table(row_limit=...))" if more > 0 else ""
        )

    def _of_averages(self) -> bool:
        return isinstance(self._rows, AverageRows) or (self._rows is None and self._is_averages())

    def plot(self, kind: str = "timeline", *, ax: Any = None, limit: int | None = None) -> Any:
        """Draw the list with matplotlib and return the Axes.

        kind: "timeline" (ranges by track and depth), "averages" (bars by self CPU time), "steps" (a bar
        for each ProfilerStep) or "memory" (bytes held over time). ax: Axes to draw on; default: new ones.
        limit: parts to draw (default: 5000 slices, 20 averages, 1000 steps, 20,000 points); the title
        says if there were more. errors.UnavailableError without matplotlib: pip install 'fastprof[plot]'.

            prof.plot("averages").figure.savefig("averages.png")
        """
        return output("plot")(self, kind, ax, limit)

    # ---- export --------------------------------------------------------------------------------

    def export(self, path: str | os.PathLike[str], format: str | None = None) -> None:
        """Write the list to a file, in the format of the path's suffix or in `format`; see EventTable.export.

        Formats other than CSV contain the whole table that the list was made from, or one made of its events.
        Averages have no times: errors.StateError for other formats than CSV.

            prof.key_averages().export("averages.csv")
        """
        kind = _outputs.format_of(path, format)
        if kind != "csv" and self._of_averages():
            raise errors.StateError(
                f"cannot write averages as {kind}, because they have no times. Use .csv, or export events()."
            )
        _outputs.export(path, kind, self.to_table, lambda: self)

    def supported_export_stacks_metrics(self) -> list[str]:
        """Return the metrics that export_stacks accepts."""
        return list(output("stack_metrics"))

    def export_stacks(
        self, path: str | os.PathLike[str], metric: str = "self_cpu_time_total"
    ) -> None:
        """Write collapsed stacks ("outer;inner 12", us) of the events that have a stack.

        metric: one of supported_export_stacks_metrics(), else errors.ValueError. Stacks are recorded
        by profiles with with_stack=True.
        """
        output("stacks")(self, path, metric)

    def export_chrome_trace(self, path: str | os.PathLike[str]) -> None:
        """Write the events as a Chrome trace (JSON object), compressed with gzip if `path` ends in .gz.

        Events appear as the list has them; profile.export_chrome_trace writes the whole recording.
        Raises errors.IoError if the file cannot be written.
        """
        output("chrome")(self, path)

    def to_columns(self) -> dict[str, Any]:
        """Return column name -> NumPy array or list, the data of to_pandas() and the other exports."""
        columns: dict[str, Any] = output("columns")(self)
        return columns

    def to_pandas(self) -> Any:
        """Return a pandas DataFrame, one row per event or average. Requires pandas."""
        return output("pandas")(self)

    def to_polars(self) -> Any:
        """Return a polars DataFrame, one row per event or average. Requires polars."""
        return output("polars")(self)

    def to_arrow(self) -> Any:
        """Return a pyarrow Table, one row per event or average. Requires pyarrow."""
        return output("arrow")(self)

    def export_csv(self, path: str | os.PathLike[str]) -> None:
        """Write to_columns() as CSV with a header line, compressed with gzip if `path` ends in .gz."""
        output("csv")(self, path)

    def export_json(self, path: str | os.PathLike[str]) -> None:
        """Write to_columns() as a JSON array of objects, compressed with gzip if `path` ends in .gz."""
        output("json")(self, path)
