# SPDX-License-Identifier: Apache-2.0
"""The HTML report in a real Chromium: on paper, in a notebook, lines by memory, tasks as rows."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from chromium import SCREENSHOTS, Chromium
from needs import NEEDS_CHROMIUM

import fastprof
from fastprof import record_function

pytestmark = [pytest.mark.integrations, NEEDS_CHROMIUM]


# What Chromium.open() waits for.
NOTEBOOK = (
    "<!doctype html><meta charset='utf-8'>"
    "<script>window.fastprof = {ready: Promise.resolve()}</script>"
)


def test_lines_by_memory(browser: Chromium, tmp_path: Path) -> None:
    # Not what threads of other tests wait in.
    with fastprof.profile(with_stack=True, profile_memory=True, all_threads=False) as prof:
        with record_function("large"):
            fastprof.report_memory_usage(64, 3 << 20)
        with record_function("slow"):
            fastprof.report_memory_usage(128, 1 << 20)
            sum(range(3_000_000))
    own = {e.name: e.self_cpu_memory_usage for e in prof.events()}
    assert own["large"] == 3 << 20
    prof.export_html(tmp_path / "m.html")
    page = browser.open(tmp_path / "m.html")
    page.view("source")
    page.run("fastprof.parts.source.update()")
    page.run("""(() => {
      const lists = [...document.querySelectorAll(".view:not([hidden]) select")];
      const list = lists.find((s) => [...s.options].some((o) => o.text === "memory allocated"));
      list.value = "memory";
      list.dispatchEvent(new Event("change"));
    })()""")
    page.settle()
    cells = page.run("""[...document.querySelectorAll("table.lines tr[data-line]")].map((row) =>
      [row.cells[0].textContent, row.cells[3].textContent, row.cells[3].style.background]).filter((row) => row[0])""")
    page.screenshot(SCREENSHOTS / "source_memory.png")
    large = next(cell for cell in cells if "large" in cell[1])
    slow = next(cell for cell in cells if "slow" in cell[1])
    assert large[0].startswith("3") and slow[0].startswith("1")
    assert "60%" in large[2] and "60%" not in slow[2]  # the strongest colour is the largest's


def test_each_task_is_a_row_of_the_timeline(browser: Chromium, tmp_path: Path) -> None:
    async def work(name: str) -> None:
        for _ in range(3):
            with record_function(f"in {name}"):
                await asyncio.sleep(0.001)

    async def main() -> None:
        tasks = [asyncio.create_task(work(f"t{i}"), name=f"task {i}") for i in range(3)]
        await asyncio.gather(*tasks)

    with fastprof.profile() as prof:
        asyncio.run(main())
    prof.export_html(tmp_path / "t.html")
    page = browser.open(tmp_path / "t.html")
    page.view("flame")
    options = page.run("[...document.querySelectorAll('select option')].map((o) => o.text)")
    page.view("timeline")
    page.screenshot(SCREENSHOTS / "tasks.png")
    assert all(sum(f"task {i}" in text for text in options) for i in range(3)), options


def test_the_peak_by_category_is_that_of_the_memory_profile(
    browser: Chromium, tmp_path: Path
) -> None:
    torch = pytest.importorskip("torch")
    from fastprof.analysis.memory_categories import CATEGORY_ORDER, category_name
    from fastprof.analysis.memory_categories.origins import explain_peak
    from fastprof.analysis.memory_categories.totals import category_totals

    model = torch.nn.Sequential(torch.nn.Linear(64, 256), torch.nn.ReLU(), torch.nn.Linear(256, 1))
    optimizer = torch.optim.Adam(model.parameters())
    with fastprof.profile(
        profile_memory=True, record_shapes=True, with_stack=True, python_calls=False
    ) as prof:
        for _ in range(3):
            with record_function("forward"):
                loss = model(torch.randn(128, 64)).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    prof.export_html(tmp_path / "m.html")
    page = browser.open(tmp_path / "m.html")
    page.view("memory")
    page.wait_until("document.querySelector('table.categories tr:nth-child(2)')")
    categories, parts = page.run(
        """[...document.querySelectorAll("table.categories")].map((table) =>
            [...table.rows].slice(1).map((row) => [...row.cells].map((cell) => cell.textContent)))"""
    )
    page.screenshot(SCREENSHOTS / "memory_categories.png")

    memory = prof.memory_profile()
    totals = category_totals(memory)[0]
    sizes = totals.bytes[totals.peak].tolist()
    held = {category_name(c): n for c, n in zip(CATEGORY_ORDER, sizes, strict=True) if n}
    assert {"parameter", "activation", "gradient"} <= held.keys()
    shown = page.run(f"{list(held.values())}.map((n) => fastprof.parts.format.bytes(n))")
    assert {row[0]: row[1] for row in categories} == dict(zip(held, shown, strict=True))
    text = page.run("document.querySelector('.view.memory').innerText")
    peak = page.run(f"fastprof.parts.format.bytes({sum(sizes)})")
    assert f": {peak} held" in text and f"The peak by category: {peak} at" in text  # one peak
    assert prof.memory_report("cpu").devices[0].peak_bytes == sum(sizes)
    shares = [float(row[2].rstrip(" %").lstrip("<")) for row in categories]
    assert abs(sum(shares) - 100) < 0.1 * len(shares)
    expected = explain_peak(memory, totals.device)[:40]
    assert [row[0] for row in parts] == [category_name(part.category) for part in expected]
    assert [int(row[4]) for row in parts] == [part.count for part in expected]
    assert any("forward" in row[1] and "test_report_look" in row[2] for row in parts)


def test_the_report_works_in_a_notebooks_frame(browser: Chromium, tmp_path: Path) -> None:
    from fastprof.report.inline import inline_report

    name = "</iframe><script>parent.hit = 1</script>"
    with fastprof.profile() as prof, record_function(name):
        pass
    report = inline_report(prof._html_page(title="a & b"), 400)
    listed = prof.key_averages()._repr_html_()
    file = tmp_path / "notebook.html"
    file.write_text(NOTEBOOK + report + listed, "utf-8")
    page = browser.open(file)
    page.settle()
    assert page.run("document.querySelectorAll('iframe').length") == 1
    assert page.run("document.querySelector('iframe').contentDocument") is None  # sandboxed
    assert page.run("window.hit") is None
    frame = page.frame()
    opened = "window.fastprof.ready.then(({model}) => model.n)"
    assert frame.run(opened) == len(prof.event_table)
    frame.run("window.fastprof.parts.state.set({view: 'table'})")
    assert name in frame.run("document.querySelector('.view.table').innerText")
    page.screenshot(SCREENSHOTS / "notebook.png")
