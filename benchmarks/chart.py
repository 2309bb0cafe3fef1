# SPDX-License-Identifier: Apache-2.0
"""Write docs/images/benchmarks.svg: a bar chart of the results in benchmarks/results, fastprof's and other tools'.

    python benchmarks/chart.py          # a test fails when the picture is older than the results

Text and axes take the colour of the page's scheme (light or dark); nothing but the standard library is needed.
"""

from __future__ import annotations

import json
import math
from html import escape
from pathlib import Path
from typing import NamedTuple

HERE = Path(__file__).resolve().parent
PICTURE = HERE.parent / "docs" / "images" / "benchmarks.svg"


class Bar(NamedTuple):
    """One case: its name, its value in the panel's unit, whether it is fastprof's."""

    name: str
    value: float
    own: bool


class Panel(NamedTuple):
    """Bars on one logarithmic axis, in ``unit``."""

    title: str
    unit: str
    bars: list[Bar]


def rows(name: str) -> dict[str, dict[str, float]]:
    """Return case -> row of a file of results."""
    text = (HERE / "results" / f"{name}.json").read_text()
    return {row["case"]: row for row in json.loads(text)["rows"]}


def panels() -> list[Panel]:
    """Return the panels of the chart."""
    ranges, analysis, ops = rows("python_ranges"), rows("analysis"), rows("torch_ops")
    prefix = "transformer_step"

    def one(case: str, name: str, own: bool) -> Bar:
        return Bar(name, ranges[case]["min_ns"], own)

    return [
        Panel(
            "A range in Python, recorded",
            "ns",
            [
                one("record_function, recorded", "fastprof record_function", True),
                one("with threading.Lock()", "with threading.Lock(), for comparison", False),
                *(
                    one(case, name, False)
                    for case, name in (
                        ("torch record_function, recorded", "torch.profiler record_function"),
                        ("viztracer log_event, recorded", "viztracer log_event"),
                    )
                    if case in ranges
                ),
            ],
        ),
        Panel(
            "An op of a transformer step, recorded: time added",
            "ns",
            [
                Bar("fastprof", ops[f"{prefix}, fastprof, plain"]["over_bare_ns"], True),
                Bar(
                    "torch.profiler", ops[f"{prefix}, torch.profiler, plain"]["over_bare_ns"], False
                ),
            ],
        ),
        Panel(
            "From stop() to the printed table, 10⁵ ranges",
            "ms",
            [
                Bar(name, 1e3 * analysis[f"{name}, 100000 ranges"]["stop_and_table_s"], own)
                for name, own in (("fastprof", True), ("torch.profiler", False))
            ],
        ),
    ]


def chart() -> str:
    """Return the picture as SVG."""
    width, left, right, line = 760, 270, 90, 24
    parts: list[str] = []
    y = 10
    for panel in panels():
        y += 26
        parts.append(f'<text class="t" x="0" y="{y}">{escape(panel.title)}</text>')
        y += 12
        values = [bar.value for bar in panel.bars]
        low = 10 ** math.floor(math.log10(min(values)) - 0.01)
        high = 10 ** math.ceil(math.log10(max(values)))
        per = (width - left - right) / math.log10(high / low)
        top = y
        for bar in panel.bars:
            length = per * math.log10(bar.value / low)
            kind = "own" if bar.own else "other"
            parts += [
                f'<text x="{left - 8}" y="{y + 15}" text-anchor="end">{escape(bar.name)}</text>',
                f'<rect class="{kind}" x="{left}" y="{y + 3}" width="{length:.1f}" height="16" rx="2"/>',
                f'<text x="{left + length + 6:.1f}" y="{y + 15}">{number(bar.value)} {panel.unit}</text>',
            ]
            y += line
        for power in range(round(math.log10(low)), round(math.log10(high)) + 1):
            x = left + per * (power - math.log10(low))
            parts.append(f'<path class="g" d="M{x:.1f} {top}V{y}"/>')
            parts.append(
                f'<text class="a" x="{x:.1f}" y="{y + 12}" text-anchor="middle">{10**power:,}</text>'
            )
        y += 16
    style = (
        "text{font:13px system-ui,sans-serif;fill:#24292f}.t{font-weight:600}.a{font-size:10px;fill:#6e7781}"
        ".own{fill:#2f6fd6}.other{fill:#9aa4b1}.g{stroke:#8884;stroke-width:1}"
        "@media(prefers-color-scheme:dark){text{fill:#e6edf3}.a{fill:#9198a1}.own{fill:#6ea8ff}.other{fill:#6e7681}}"
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {y + 8}" width="{width}" height="{y + 8}"'
        f' role="img" aria-label="Costs of fastprof and of others, logarithmic axes">\n'
        f"<style>{style}</style>\n" + "\n".join(parts) + "\n</svg>\n"
    )


def number(value: float) -> str:
    """Return a value with at least three significant digits."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


if __name__ == "__main__":
    PICTURE.write_text(chart())
