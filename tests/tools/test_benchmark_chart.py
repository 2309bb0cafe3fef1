# SPDX-License-Identifier: Apache-2.0
"""The chart of the benchmarks shows the results that are saved."""

from __future__ import annotations

import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "benchmarks"))

import chart  # noqa: E402


def test_the_picture_is_that_of_the_results() -> None:
    assert chart.PICTURE.read_text() == chart.chart(), "run: python benchmarks/chart.py"


def test_bars_have_the_length_of_their_values() -> None:
    """Each panel's first bar is fastprof's; lengths differ as the logarithms of the values do."""
    tree = ET.fromstring(chart.chart())
    bars = [e for e in tree.iter() if e.tag.endswith("rect")]
    panels = chart.panels()
    assert len(bars) == sum(len(panel.bars) for panel in panels)
    assert [b.get("class") == "own" for b in bars] == [b.own for p in panels for b in p.bars]
    at = 0
    for panel in panels:
        lengths = [float(b.get("width", "0")) for b in bars[at : at + len(panel.bars)]]
        at += len(panel.bars)
        order = sorted(range(len(lengths)), key=lengths.__getitem__)
        assert order == sorted(range(len(lengths)), key=lambda i: panel.bars[i].value)
        assert min(lengths) >= 0 and max(lengths) <= 400


def test_a_changed_result_changes_the_picture(monkeypatch: pytest.MonkeyPatch) -> None:
    before = chart.chart()
    rows = chart.rows

    def slower(name: str) -> dict[str, dict[str, float]]:
        found = rows(name)
        if name == "python_ranges":
            found["record_function, recorded"]["min_ns"] *= 1.5
        return found

    monkeypatch.setattr(chart, "rows", slower)
    assert chart.chart() != before
