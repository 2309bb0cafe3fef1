# SPDX-License-Identifier: Apache-2.0
"""The HTML report in a real Chromium: on paper, in a notebook's frame, lines by memory, tasks as rows of the timeline."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest
from chromium import SCREENSHOTS, Chromium, find_chromium

import fastprof
from fastprof import record_function

pytestmark = [
    pytest.mark.integrations,
    pytest.mark.skipif(find_chromium() is None, reason="no Chromium is installed"),
]


@pytest.fixture(scope="module")
def browser() -> Iterator[Chromium]:
    with Chromium() as running:
        yield running


CORNER = """(() => {
  const canvas = [...document.querySelectorAll("canvas")].find((each) => each.clientWidth && each.width);
  return [...canvas.getContext("2d").getImageData(canvas.width - 2, canvas.height - 2, 1, 1).data].slice(0, 3);
})()"""


def test_a_dark_page_is_printed_light_and_dark_afterwards(
    browser: Chromium, tmp_path: Path
) -> None:
    with fastprof.profile() as prof, record_function("work"):
        sum(range(10_000))
    prof.export_html(tmp_path / "p.html")
    page = browser.open(tmp_path / "p.html")
    page.evaluate("document.documentElement.dataset.theme = 'dark'")
    page.evaluate("document.querySelectorAll('nav button')[1].click()")
    # No frame is drawn between the event and the printing: what the canvas has then is what is printed.
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    printed = page.evaluate(CORNER)
    body = page.evaluate("getComputedStyle(document.body).backgroundColor")
    page.evaluate("dispatchEvent(new Event('afterprint'))")
    shown = page.evaluate(CORNER)
    assert min(printed) > 200 > 60 > max(shown)
    assert body == "rgb(246, 247, 249)"
    assert page.evaluate("document.documentElement.dataset.theme") == "dark"


def test_lines_by_memory(browser: Chromium, tmp_path: Path) -> None:
    with fastprof.profile(with_stack=True, profile_memory=True) as prof:
        with record_function("large"):
            fastprof.report_memory_usage(64, 3 << 20)
        with record_function("slow"):
            fastprof.report_memory_usage(128, 1 << 20)
            sum(range(3_000_000))
    own = {e.name: e.self_cpu_memory_usage for e in prof.events()}
    assert own["large"] == 3 << 20
    prof.export_html(tmp_path / "m.html")
    page = browser.open(tmp_path / "m.html")
    page.evaluate(
        "[...document.querySelectorAll('nav button')].find((b) => b.textContent === 'Source').click()"
    )
    page.wait("document.querySelector('.view:not([hidden]) table.lines tr[data-line]')")
    page.evaluate("""(() => {
      const list = [...document.querySelectorAll("select")].find((s) => [...s.options].some((o) => o.value === "memory" && o.text === "memory allocated" && s.closest(".view:not([hidden])")));
      list.value = "memory";
      list.dispatchEvent(new Event("change"));
    })()""")
    page.wait("document.querySelector('table.lines tr.heads td').textContent === 'allocated'")
    cells = page.evaluate("""[...document.querySelectorAll("table.lines tr[data-line]")].map((row) =>
      [row.cells[0].textContent, row.cells[3].textContent, row.cells[3].style.background]).filter((row) => row[0])""")
    page.screenshot(SCREENSHOTS / "source_memory.png")
    assert [cell[0] for cell in cells] == ["3.00 MB", "1.00 MB"] or len(cells) >= 2
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
    page.evaluate("document.querySelectorAll('nav button')[1].click()")
    options = page.evaluate(
        "[...document.querySelectorAll('.view:not([hidden]) select option')].map((o) => o.text)"
    )
    page.screenshot(SCREENSHOTS / "tasks.png")
    assert {f"task {i}" for i in range(3)} <= {text.split(" · ")[0] for text in options}


def test_the_report_works_in_a_notebooks_frame(browser: Chromium, tmp_path: Path) -> None:
    from fastprof.report.inline import inline_report

    with fastprof.profile() as prof, record_function("</iframe><script>parent.hit = 1</script>"):
        pass
    frame = inline_report(prof._html_page(title="a & b"), 400)
    listed = prof.key_averages()._repr_html_()
    file = tmp_path / "notebook.html"
    file.write_text(
        "<!doctype html><meta charset='utf-8'><script>window.loads = 0;"
        "addEventListener('message', () => {});</script>" + frame + listed,
        "utf-8",
    )
    page = browser.open(file)
    page.wait("document.querySelector('iframe').clientWidth > 100")
    assert page.evaluate("document.querySelectorAll('iframe').length") == 1
    assert page.evaluate("document.querySelector('iframe').contentDocument") is None  # sandboxed
    assert page.evaluate("window.hit") is None
    page.screenshot(SCREENSHOTS / "notebook.png")


def test_a_notebook_table_sorts(browser: Chromium, tmp_path: Path) -> None:
    with fastprof.profile() as prof:
        for name, count in (("b", 1), ("a", 100_000), ("c", 10)):
            with record_function(name):
                sum(range(count))
    file = tmp_path / "table.html"
    file.write_text("<!doctype html><meta charset='utf-8'>" + prof._repr_html_(), "utf-8")
    page = browser.open(file)
    rows = "[...document.querySelectorAll('tbody tr')].map((row) => row.cells[0].textContent)"
    assert page.evaluate(rows)[0] == "a"  # by self time
    click = "document.querySelectorAll('th')[%d].click()"
    page.evaluate(click % 0)
    assert page.evaluate(rows) == ["a", "b", "c"]
    page.evaluate(click % 0)
    assert page.evaluate(rows) == ["c", "b", "a"]
    page.evaluate(click % 2)
    own = {average.key: average.self_cpu_time_total for average in prof.key_averages()}
    assert page.evaluate(rows) == sorted(own, key=lambda name: -own[name])
