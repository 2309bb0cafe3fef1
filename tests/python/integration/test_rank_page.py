# SPDX-License-Identifier: Apache-2.0
"""The page of a job's ranks in a real Chromium: what the heat map and the tables show is what the job says."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from chromium import SCREENSHOTS, Chromium, Page
from needs import NEEDS_CHROMIUM
from processes import python
from simulated_jobs import SimulatedJob

import fastprof
from fastprof.ranks.path_text import path_values

pytestmark = [pytest.mark.integrations, NEEDS_CHROMIUM]
pytest.importorskip("pyarrow", reason="pyarrow is not installed")
# Red minus blue of the pixels where the map draws a rank: of its mean, and of each step.
ROW = """(async () => {
  const { map, model } = await fastprof.ready;
  map.canvas.drawNow();
  const context = map.canvas.element.getContext("2d");
  return Array.from({ length: model.steps + 1 }, (_, step) => {
    const { x, y } = map.place(%d, step - 1);
    const [red, , blue] = context.getImageData(Math.round(x), Math.floor(y), 1, 1).data;
    return red - blue;
  });
})()"""
PLACE = """(async () => {
  const { map } = await fastprof.ready;
  const { x, y } = map.place(%d, %d);
  const box = map.canvas.element.getBoundingClientRect();
  return [box.left + x, box.top + y];
})()"""


def opened(browser: Chromium, folder: Path, job: Any, name: str, dark: bool = False) -> Page:
    fastprof.ranks.export_html(job, folder / "ranks.html")
    page = browser.open(folder / "ranks.html", 1366, 900, dark=dark)
    page.settle()
    page.screenshot(SCREENSHOTS / f"{name}.png")
    assert page.errors == [] and page.requests == [(folder / "ranks.html").as_uri()]
    return page


@pytest.mark.parametrize(("ranks", "slow"), [(8, 5), (1024, 700)])
def test_the_odd_rank_is_seen_and_hover_says_its_times(
    browser: Chromium, tmp_path: Path, ranks: int, slow: int
) -> None:
    """With 1,024 ranks, several share a pixel: the odd one among them is drawn."""
    SimulatedJob(ranks, 50, kernels=6, segments=2, slow={slow: 1.1}).write(str(tmp_path / "r"))
    job = fastprof.ranks.open(tmp_path / "r")
    page = opened(browser, tmp_path, job, f"ranks_{ranks}")
    page.run("fastprof.parts.rankModel.select(-1)")
    odd = page.run(ROW % slow)
    others = [page.run(ROW % r) for r in range(0, ranks, ranks // 8) if abs(r - slow) > 4]
    assert odd[0] > 150 > 100 > max(each[0] for each in others)  # the mean
    assert np.mean(odd[1:]) > 100 > 50 > max(np.mean(each[1:]) for each in others)
    page.mouse("mouseMoved", *page.run(PLACE % (slow, 7)))
    page.settle()
    tip = page.run("document.querySelector('.tip').innerText")
    shown = page.run(f"fastprof.parts.format.time({int(job.own_ns[slow, 7])})")
    assert f"rank {slow}, step 7" in tip and f"Own time: {shown} (" in tip


def test_tables_sort_and_select(browser: Chromium, tmp_path: Path) -> None:
    simulated, markup = SimulatedJob(12, 20, slow={5: 1.3}), "<img src=x onerror=alert(1)>"
    simulated.write(str(tmp_path / "r"))
    (tmp_path / "r" / "rank-00011.json").write_text(f'{{"format": "fastprof rank {markup}"}}')
    done = python(
        "-m", "fastprof", "ranks", "r", "--html", "command.html", "--what-if", "all_reduce=2", cwd=tmp_path,
        check=True,
    )  # fmt: skip
    assert "wrote command.html" in done.stdout and "problem: " in done.stdout
    job = fastprof.ranks.open(tmp_path / "r")
    page = opened(browser, tmp_path, job, "ranks_tables", dark=True)
    assert page.run("document.querySelectorAll('img').length") == 0
    assert markup in page.run("document.querySelector('.warning').innerText")
    cells = "[...document.querySelectorAll('[data-table=%s] tbody tr')].map((row) => row.cells[%d].innerText)"
    assert page.run(cells % ("ranks", 0)) == ["5 slow" if n == 5 else str(n) for n in range(11)]
    heading = "document.querySelectorAll('[data-table=ranks] th button')[3]"
    assert page.run(f"{heading}.innerText") == "Own time"
    page.run(f"{heading}.click()")
    own = [int(row.mean()) for row in job.own_ns]
    by_time = sorted(range(11), key=lambda rank: -own[rank])
    assert [int(each.split()[0]) for each in page.run(cells % ("ranks", 0))] == by_time
    page.run(f"{heading}.click()")
    page.run("document.querySelector('[data-table=ranks] tbody tr').click()")
    details = page.run("document.querySelector('.rank-details').innerText")
    assert details.startswith(f"Rank {by_time[-1]}\n")
    assert page.run(cells % ("collectives", 0)) == ["all_reduce"]
    assert page.run(cells % ("stragglers", 0)) == ["5"]
    values = path_values(job, [("all_reduce", 2.0)])
    shown = [f"{each['percent']:.1f} %" for each in values["path_by_op"]]
    assert page.run(cells % ("path", 4)) == shown[:100]
    assert page.run(cells % ("path", 2)) == [str(e["rank"]) for e in values["path_by_op"]][:100]
    page = browser.open(tmp_path / "command.html", 1366, 900)
    page.settle()
    (case,) = values["what_if"]
    assert page.run(cells % ("what-if", 0)) == ["all_reduce 2 times faster"]
    assert page.run(cells % ("what-if", 3)) == [f"{case['percent']:.1f} %"]
