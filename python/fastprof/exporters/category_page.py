# SPDX-License-Identifier: Apache-2.0
"""HTML page of memory by category: a stacked plot over time, the peak, and the origins of its memory."""

from __future__ import annotations

import html
from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from fastprof.analysis.memory_categories.kinds import CATEGORY_ORDER, Category, category_name
from fastprof.analysis.memory_categories.origins import explain_peak
from fastprof.analysis.memory_categories.profile import MemoryProfile
from fastprof.analysis.memory_categories.totals import CategoryTotals, reconcile
from fastprof.analysis.memory_origin import BEFORE
from fastprof.exporters.memory_timeline import failures_table, missing_paragraph
from fastprof.exporters.plotted_points import highest_points
from fastprof.model.memory_rows import failed_requests

__all__ = ["write_page"]

Array: TypeAlias = NDArray[Any]
_WIDTH, _HEIGHT, _LEFT, _BELOW = 900, 320, 80, 40
_POINTS = 900  # of the plot: one per pixel
_ROWS = 40  # of the table of the peak's parts
_COLORS: dict[Category | None, str] = {
    Category.PARAMETER: "#2e7d32",
    Category.OPTIMIZER_STATE: "#d9a514",
    Category.INPUT: "#37474f",
    Category.TEMPORARY: "#9575cd",
    Category.ACTIVATION: "#d84343",
    Category.GRADIENT: "#1e4fa3",
    Category.AUTOGRAD_DETAIL: "#5b9bf0",
    None: "#9e9e9e",
}
_STYLE = (
    "body{font:14px sans-serif;margin:2em;max-width:1020px}svg{background:#fafafa}"
    "table{border-collapse:collapse;margin:1em 0}td,th{padding:2px 10px;text-align:left;"
    "vertical-align:top}td.n{text-align:right;white-space:nowrap}"
    "td.c::before{content:'';display:inline-block;width:10px;height:10px;margin-right:6px;"
    "background:var(--c)}text{font:11px sans-serif}.s{color:#555}"
)


def write_page(file: Any, profile: MemoryProfile, devices: Sequence[CategoryTotals]) -> None:
    """Write the page to a text file, one section per device. It has no scripts and no links."""
    title = html.escape(profile.table.process_name or "memory")
    file.write(
        f'<!doctype html>\n<html lang="en"><meta charset="utf-8"><title>{title}: memory</title>\n'
        f"<style>{_STYLE}</style>\n<h1>{title}: memory by category</h1>\n"
    )
    file.write(missing_paragraph(profile.table))
    sums = {one.device: one for one in reconcile(profile)}
    for totals in devices:
        peak = int(totals.total[totals.peak])
        at = (int(totals.time_ns[totals.peak]) - int(totals.time_ns[0])) / 1e6
        one = sums[totals.device]
        file.write(
            f"<h2>{html.escape(totals.device)}</h2>\n{_plot(totals)}\n"
            f"<p>Peak: <b>{_bytes(peak)}</b> ({peak:,} bytes) after {at:,.3f} ms. "
            f"In use at the begin {one.in_use_at_begin:,} + allocated {one.allocated:,} - freed "
            f"{one.freed:,} = {one.in_use_at_end:,} bytes in use at the end.</p>\n"
        )
        file.write(_by_category(totals) + _parts(profile, totals.device))
    file.write(failures_table(failed_requests(profile.table), profile.table.t0_ns))
    file.write("</html>\n")


def _by_category(totals: CategoryTotals) -> str:
    rows = "".join(
        f'<tr><td class="c" style="--c:{_COLORS[category]}">{category_name(category)}</td>'
        f'<td class="n">{int(totals.bytes[totals.peak, i]):,}</td>'
        f'<td class="n">{int(totals.bytes[:, i].max()):,}</td>'
        f'<td class="n">{int(totals.bytes[-1, i]):,}</td></tr>'
        for i, category in enumerate(CATEGORY_ORDER)
    )
    head = "<tr><th>Category<th>Bytes at the peak<th>Most at any time<th>At the end</tr>"
    return f"<table>{head}{rows}</table>\n"


def _parts(profile: MemoryProfile, device: str) -> str:
    parts = explain_peak(profile, device)
    rows = []
    for part in parts[:_ROWS]:
        ranges = html.escape(" > ".join(part.origin.ranges) or BEFORE)
        stack = "<br>".join(html.escape(frame) for frame in part.origin.stack[:6])
        rows.append(
            f'<tr><td class="n">{part.size_bytes:,}</td><td class="n">{part.count}</td>'
            f'<td class="c" style="--c:{_COLORS[part.category]}">{category_name(part.category)}</td>'
            f'<td>{ranges}<div class="s">{stack}</div></td></tr>'
        )
    rest = parts[_ROWS:]
    if rest:
        rows.append(
            f'<tr><td class="n">{sum(part.size_bytes for part in rest):,}</td>'
            f'<td class="n">{sum(part.count for part in rest)}</td><td></td>'
            f"<td>{len(rest)} more origins</td></tr>"
        )
    head = "<tr><th>Bytes<th>Tensors<th>Category<th>Allocated by</tr>"
    return f"<h3>What the peak consists of</h3><table>{head}{''.join(rows)}</table>\n"


def _plot(totals: CategoryTotals) -> str:
    time = (totals.time_ns - totals.time_ns[0]) / 1e6
    span = max(float(time[-1]), 1e-3)
    top = max(int(totals.total.max()), 1)
    kept = highest_points(time / span, totals.total, _POINTS)
    x = _LEFT + time[kept] * (_WIDTH / span)
    edges = np.cumsum(totals.bytes[kept], axis=1) * (_HEIGHT / top)
    edges = np.concatenate([np.zeros((len(kept), 1)), edges], axis=1)
    parts = [
        f'<svg viewBox="0 0 {_LEFT + _WIDTH + 20} {_HEIGHT + _BELOW}" width="100%" role="img" '
        f'aria-label="bytes by category over time">'
    ]
    for i, category in enumerate(CATEGORY_ORDER):
        if not totals.bytes[:, i].any():
            continue
        upper = _steps(x, _HEIGHT - edges[:, i + 1])
        lower = _steps(x, _HEIGHT - edges[:, i])[::-1]
        points = " ".join(f"{a:.1f},{b:.1f}" for a, b in [*upper, *lower])
        parts.append(
            f'<polygon fill="{_COLORS[category]}" points="{points}">'
            f"<title>{category_name(category)}</title></polygon>"
        )
    parts += _axes(span, top)
    at = _LEFT + float(time[totals.peak]) * (_WIDTH / span)
    parts.append(
        f'<line x1="{at:.1f}" x2="{at:.1f}" y1="0" y2="{_HEIGHT}" stroke="#000" '
        f'stroke-dasharray="4 3"/><text x="{min(at + 4, _LEFT + _WIDTH - 90):.1f}" y="12">peak '
        f"{_bytes(top)}</text></svg>"
    )
    return "".join(parts)


def _axes(span_ms: float, top: int) -> list[str]:
    parts = []
    for i in range(6):
        x, y = _LEFT + _WIDTH * i / 5, _HEIGHT - _HEIGHT * i / 5
        parts.append(
            f'<line x1="{_LEFT}" x2="{_LEFT + _WIDTH}" y1="{y}" y2="{y}" stroke="#0002"/>'
            f'<text x="{_LEFT - 6}" y="{y + 4}" text-anchor="end">{_bytes(top * i / 5)}</text>'
            f'<text x="{x}" y="{_HEIGHT + 16}" text-anchor="middle">{span_ms * i / 5:.4g}</text>'
        )
    parts.append(
        f'<text x="{_LEFT + _WIDTH / 2}" y="{_HEIGHT + 34}" text-anchor="middle">time in ms</text>'
    )
    return parts


def _steps(x: Array, y: Array) -> list[tuple[float, float]]:
    """Return the points of a step line: the height is constant until the next change."""
    points = [(float(x[0]), float(y[0]))]
    for at, before, height in zip(x[1:].tolist(), y.tolist(), y[1:].tolist(), strict=False):
        points += [(at, before), (at, height)]
    return points


def _bytes(size: float) -> str:
    for unit in ("B", "KiB", "MiB", "GiB"):
        if abs(size) < 1024:
            return f"{size:.4g} {unit}"
        size /= 1024
    return f"{size:.4g} TiB"
