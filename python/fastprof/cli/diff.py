# SPDX-License-Identifier: Apache-2.0
"""fastprof diff: compare two traces by name, with an exit code for CI."""

from __future__ import annotations

import argparse
import json
import math
import os
import sys
from typing import Any, NamedTuple

from fastprof.base import errors
from fastprof.base.formatting import counted, first_rows
from fastprof.base.short_paths import shorten_paths
from fastprof.base.text_style import cut_to_width, text_width
from fastprof.base.visible_text import encodable_text
from fastprof.cli.aggregates import are_aggregates, diff_aggregates
from fastprof.cli.html import add_html_options, html_path, print_written
from fastprof.cli.loading import load_trace
from fastprof.cli.options import Subparsers, add_reading_options, command_parser
from fastprof.cli.outputs import check_outputs
from fastprof.cli.parser import OldSpelling
from fastprof.cli.screen import Screen

__all__ = ["add_parser"]

METRICS = ("self_cpu_time_total", "cpu_time_total", "self_device_time_total", "device_time_total")
SORTS = ("change", "growth", "percent", "name", "count")
FAILED = 1
NAME_WIDTH = 55  # maximum width of names; less on a narrow terminal
MIN_NAME_WIDTH = 12

_EPILOG = """\
Compares the averages of two traces (any that `fastprof report` reads) by name and device. Times are
sums over the trace, or with --per-call means, which are comparable between traces of different length.
Of two files of aggregates (docs/always_on.md), durations are compared, with a test of significance; a name
exceeds --max-growth if its mean grew by more and the difference is significant.

exit code: 0 if no limit is exceeded, 1 if one is, 2 if a file cannot be read or written.

examples:
  fastprof diff before.json after.json
  fastprof diff --per-call --metric cpu_time_total before.fastprof after.fastprof
  fastprof diff --max-growth 10 --min-ms 1 main.json branch.json
        fails if the time of a name grew by more than 10 %; ignores names below 1 ms in both traces
  fastprof diff --max-total-growth 5 main.json branch.json
        fails if the time of all names together grew by more than 5 %
  fastprof diff --html=diff.html before.json after.json
        also writes a page with a flame graph of what grew and what shrank
"""


class Change(NamedTuple):
    """A name in both traces; each pair is (before, after). Times in us; 0 where absent."""

    name: str
    device: int
    calls: tuple[int, int]
    time_us: tuple[float, float]

    @property
    def change_us(self) -> float:
        """Time after minus time before, us."""
        return self.time_us[1] - self.time_us[0]

    @property
    def percent(self) -> float:
        """Growth of the time in percent; infinite if the name is new."""
        before, after = self.time_us
        if before > 0:
            return 100 * (after - before) / before
        return math.inf if after > 0 else 0.0


def add_parser(commands: Subparsers) -> None:
    """Add the subcommand's parser."""
    parser = command_parser(commands, "diff", "compare two traces name by name", _EPILOG)
    parser.add_argument("before", metavar="A", help="the trace to compare with")
    parser.add_argument("after", metavar="B", help="the newer trace")
    parser.add_argument(
        "--metric",
        choices=METRICS,
        default=METRICS[0],
        metavar="TIME",
        help=f"time to compare: {', '.join(METRICS)} (default: %(default)s)",
    )
    parser.add_argument(
        "--per-call", action="store_true", help="compare the mean time of a call, not the sum"
    )
    order = parser.add_argument(
        "--sort-by",
        choices=SORTS,
        default="change",
        help="sort by absolute change (default), growth, growth in percent, name, or change in calls",
    )
    parser.add_argument("--sort", action=OldSpelling, now=order)
    parser.add_argument(
        "--row-limit", type=int, default=30, metavar="N", help="rows to print, -1 for all (30)"
    )
    parser.add_argument("--json", metavar="PATH", help="also write all rows to a JSON file")
    add_html_options(parser)
    add_reading_options(parser)
    limits = parser.add_argument_group("limits (for CI)")
    limits.add_argument(
        "--max-growth",
        type=_percent,
        metavar="PERCENT",
        help="exit with 1 if the time of a name grew by more; a name that is only in B exceeds any limit",
    )
    limits.add_argument(
        "--max-total-growth",
        type=_percent,
        metavar="PERCENT",
        help="exit with 1 if the time of all names together grew by more",
    )
    limits.add_argument(
        "--min-ms",
        type=_milliseconds,
        default=0.0,
        metavar="MS",
        help="ignore names below this time in both traces when checking --max-growth (0)",
    )
    parser.set_defaults(command=diff)


def _percent(text: str) -> float:
    return _finite(text, text.removesuffix("%"), "share", "percent, such as 5")


def _milliseconds(text: str) -> float:
    return _finite(text, text, "time", "milliseconds, such as 0.5")


def _finite(given: str, number: str, what: str, unit: str) -> float:
    try:
        value = float(number)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise argparse.ArgumentTypeError(f"invalid {what} {given!r}. Use a number of {unit}.")
    return value


def diff(options: argparse.Namespace) -> int:
    """Print the differences; return the exit code: FAILED if a limit is exceeded."""
    if options.before == options.after == "-":
        raise errors.ValueError(
            "A and B are both - (standard input). Give the path of a file for one of them."
        )
    inputs = [options.before, options.after]
    if are_aggregates(inputs):
        return diff_aggregates(options)
    page = html_path(options, "diff")
    check_outputs([options.json, page], inputs)
    lists = [_listed(path, options) for path in inputs]
    changes = _changes(_averages(lists[0]), _averages(lists[1]), options)
    total = _total(changes, options.per_call)
    changes = [_positive(change) for change in changes]
    exceeded = _exceeded(changes, total, options)
    # Files first: whoever reads stdout may leave before the end (`| head`).
    if options.json:
        _write_json(changes, total, options)
    if page is not None:
        _write_page(lists, page, options)
    print(f"A: {options.before}\nB: {options.after}\n")
    print(_text(_sorted(changes, options.sort_by), total, options))
    if page is not None:
        print_written(page, options)
    screen = Screen.of(sys.stdout)
    for line in exceeded:
        print(screen.line(line))
    return FAILED if exceeded else 0


def _listed(path: str, options: argparse.Namespace) -> Any:
    return load_trace(path, options).events()


def _write_page(lists: list[Any], path: str, options: argparse.Namespace) -> None:
    from fastprof.report.export import export_comparison

    titles = (os.path.basename(options.before), os.path.basename(options.after))
    before, after = lists
    export_comparison(before, after, path, titles=titles, sources=not options.no_source)


def _averages(events: Any) -> dict[str, Any]:
    columns: dict[str, Any] = events.key_averages(include_python_functions=True).to_columns()
    return columns


def _changes(
    before: dict[str, Any], after: dict[str, Any], options: argparse.Namespace
) -> list[Change]:
    found: dict[tuple[str, int], list[tuple[int, float]]] = {}
    field = f"{options.metric}_us"
    if field not in before and field not in after:
        raise errors.ValueError(
            f"neither trace contains {options.metric}. Choose another --metric: {', '.join(METRICS)}."
        )
    for side, columns in enumerate((before, after)):
        times = columns.get(field)
        keys = zip(columns["name"], columns["device_type"].tolist(), strict=True)
        for row, key in enumerate(keys):
            entry = found.setdefault(key, [(0, 0.0), (0, 0.0)])
            count = entry[side][0] + int(columns["count"][row])
            time_us = entry[side][1] + (0.0 if times is None else float(times[row]))
            entry[side] = (count, time_us)
    changes = []
    for (name, device), ((count_a, time_a), (count_b, time_b)) in found.items():
        if options.per_call:
            time_a, time_b = time_a / max(count_a, 1), time_b / max(count_b, 1)
        changes.append(Change(name, device, (count_a, count_b), (time_a, time_b)))
    return changes


def _positive(change: Change) -> Change:
    """Return the change with times of at least 0.

    A self time is negative where ranges overlap without nesting: the children are longer than their parent. The total
    has the difference.
    """
    before, after = change.time_us
    return change._replace(time_us=(max(before, 0.0), max(after, 0.0)))


def _total(changes: list[Change], per_call: bool) -> Change:
    """Return the change of all names: of the sum, or of the mean of all calls."""
    calls = sum(c.calls[0] for c in changes), sum(c.calls[1] for c in changes)
    times = [
        math.fsum(c.time_us[i] * (c.calls[i] if per_call else 1) for c in changes)
        / (max(calls[i], 1) if per_call else 1)
        for i in (0, 1)
    ]
    return Change("all together", 0, calls, (times[0], times[1]))


def _sorted(changes: list[Change], order: str) -> list[Change]:
    keys: dict[str, Any] = {
        "change": lambda c: (-abs(c.change_us), c.name),
        "growth": lambda c: (-c.change_us, c.name),
        "percent": lambda c: (-c.percent, c.name),
        "name": lambda c: c.name,
        "count": lambda c: (-abs(c.calls[1] - c.calls[0]), c.name),
    }
    return sorted(changes, key=keys[order])


def _exceeded(changes: list[Change], total: Change, options: argparse.Namespace) -> list[str]:
    """Return a line for each exceeded limit."""
    lines = []
    if options.max_growth is not None:
        for change in _sorted(changes, "growth"):
            counts = max(change.time_us) >= options.min_ms * 1000
            if counts and change.percent > options.max_growth:
                lines.append(
                    f"EXCEEDED: {change.name}: {_percent_text(change)}, "
                    f"more than {options.max_growth:g} %"
                )
    if options.max_total_growth is not None and total.percent > options.max_total_growth:
        lines.append(
            f"EXCEEDED: {total.name}: {_percent_text(total)}, "
            f"more than {options.max_total_growth:g} %"
        )
    return lines


def _percent_text(change: Change) -> str:
    if math.isinf(change.percent):
        return "new"
    if change.time_us[0] > 0 and change.calls[1] == 0:
        return "gone"
    return f"{change.percent:+.1f} %"


def _text(changes: list[Change], total: Change, options: argparse.Namespace) -> str:
    shown = first_rows(changes, options.row_limit)
    unit, scale = ("us", 1.0) if options.per_call else ("ms", 1000.0)
    what = f"{options.metric}, {'mean per call' if options.per_call else 'sum'}, {unit}"
    rows = [("name", "calls A", "calls B", f"A {unit}", f"B {unit}", "change", "percent")]
    for change in [*shown, total]:
        rows.append(
            (
                change.name,
                str(change.calls[0]),
                str(change.calls[1]),
                f"{change.time_us[0] / scale:.3f}",
                f"{change.time_us[1] / scale:.3f}",
                f"{change.change_us / scale:+.3f}",
                _percent_text(change),
            )
        )
    widths = [max(text_width(row[i]) for row in rows) for i in range(len(rows[0]))]
    widths[0] = max(text_width(shorten_paths(row[0])) for row in rows)
    screen = Screen.of(sys.stdout)
    columns = screen.width
    room = NAME_WIDTH if columns is None else columns - sum(widths[1:]) - 2 * (len(widths) - 1)
    widths[0] = min(widths[0], max(min(room, NAME_WIDTH), MIN_NAME_WIDTH))
    rows = [(cut_to_width(shorten_paths(screen.line(row[0])), widths[0]), *row[1:]) for row in rows]
    lines = [what]
    for number, row in enumerate(rows):
        if number in (1, len(rows) - 1):
            lines.append("-" * (sum(widths) + 2 * (len(widths) - 1)))
        cells = [row[0]]
        cells += [cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True)]
        if screen.style is not None and number:
            cells[5:] = [screen.style.paint(cell, _role(row[5])) for cell in cells[5:]]
        lines.append("  ".join(cells).rstrip())
    if len(shown) < len(changes):
        left = counted(len(changes) - len(shown), "more name")
        lines.append(f"{left}; --row-limit -1 prints all")
    return "\n".join(lines)


def _role(change: str) -> str:
    """Return the colour role of a printed change: "up", "down", or "" for one that prints as 0."""
    if not change.strip("+-0."):
        return ""
    return "up" if change.startswith("+") else "down"


def _write_json(changes: list[Change], total: Change, options: argparse.Namespace) -> None:
    from fastprof.base.atomic_file import atomic_text

    def row(change: Change) -> dict[str, Any]:
        return {
            "name": encodable_text(change.name),
            "device_type": change.device,
            "calls": list(change.calls),
            "time_us": list(change.time_us),
            "change_us": change.change_us,
            "percent": None if math.isinf(change.percent) else change.percent,
        }

    document = {
        "before": os.fspath(options.before),
        "after": os.fspath(options.after),
        "metric": options.metric,
        "per_call": options.per_call,
        "total": row(total),
        "names": [row(change) for change in _sorted(changes, options.sort_by)],
    }
    with atomic_text(options.json) as file:
        json.dump(document, file, indent=1, allow_nan=False)
        file.write("\n")
