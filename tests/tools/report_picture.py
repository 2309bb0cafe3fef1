# SPDX-License-Identifier: Apache-2.0
"""Make the pictures of the documentation in a headless Chromium.

``report_picture.py [REPORT] [PICTURE]``: docs/images/report.png, the README's picture, of the report that `make demo`
writes; the defaults are build/demo/digits.html and docs/images/report.png.
``report_picture.py --views [FOLDER]``: flame.png, steps.png, memory.png and difference.png of docs/report.md, of a
training that runs for some seconds; needs torch. The default is docs/images.
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from chromium import Chromium, Page

ROOT = Path(__file__).resolve().parents[2]

# Two batches of training in view, the quickest, with an op selected whose arrow leads to its backward function.
_CHOOSE = """(async () => {
    const {model} = await fastprof.ready;
    const {state, timeline} = fastprof.parts;
    const rows = (name) => [...model.length.keys()].filter((row) => model.siteName(row) === name);
    const ops = rows('aten::addmm');
    const forward = rows('forward').filter((row) => model.start[row] >= model.start[ops[0]]);
    const spans = forward.slice(0, -2).map((row, i) => model.start[forward[i + 2]] - model.start[row]);
    const quickest = spans.indexOf(Math.min(...spans));
    const [first, last] = [model.start[forward[quickest]], model.start[forward[quickest + 2]]];
    state.selectRow(ops.find((row) => model.start[row] >= first));
    const wait = () => new Promise((done) => setTimeout(done, 50));
    while (!document.querySelector('.details .jumps') || !fastprof.parts.lanes.signals().flows) await wait();
    await wait();
    timeline.show(first - (last - first) * 0.02, last);
})()"""


def train(width: int, slow_step: int) -> Any:
    """Return the profile of ten training steps; loading the data of one of them takes longer."""
    import torch

    import fastprof

    torch.manual_seed(0)
    torch.set_num_threads(1)
    model = torch.nn.Sequential(
        torch.nn.Conv2d(3, width, 3), torch.nn.ReLU(), torch.nn.MaxPool2d(2),
        torch.nn.Conv2d(width, 32, 3), torch.nn.ReLU(), torch.nn.AdaptiveAvgPool2d(4),
        torch.nn.Flatten(), torch.nn.Linear(512, 10),
    )  # fmt: skip
    optimizer = torch.optim.Adam(model.parameters())
    schedule = fastprof.schedule(wait=1, warmup=1, active=10, repeat=1)
    with fastprof.profile(profile_memory=True, record_shapes=True, schedule=schedule) as prof:
        for number in range(12):
            with fastprof.record_function("load"):
                images, labels = torch.randn(32, 3, 32, 32), torch.randint(0, 10, (32,))
                time.sleep(0.030 if number == slow_step else 0.003)
            with fastprof.record_function("forward"):
                loss = torch.nn.functional.cross_entropy(model(images), labels)
            optimizer.zero_grad()
            with fastprof.record_function("backward"):
                loss.backward()
            with fastprof.record_function("update"):
                optimizer.step()
            prof.step()
    return prof


def quickest(width: int) -> Any:
    """Return the events of the quickest of five trainings, the one that other programs disturbed least."""
    runs = [train(width, 8).events() for _ in range(5)]
    return min(runs, key=lambda events: events.to_table().t1_ns - events.to_table().t0_ns)


def picture(page: Page, view: str, path: Path) -> None:
    """Write the picture of a view."""
    page.view(view)
    page.run("new Promise((done) => setTimeout(done, 500))")
    page.screenshot(path)
    print(f"wrote {path}, {path.stat().st_size} bytes")


def views(folder: Path) -> None:
    """Write the pictures of the views."""
    from fastprof.report.export import export_comparison, export_html

    before, after = quickest(16), quickest(24)
    with tempfile.TemporaryDirectory() as place, Chromium() as browser:
        one, both = Path(place, "one.html"), Path(place, "both.html")
        export_html(before, one, title="train.py")
        export_comparison(before, after, both, titles=("16 channels", "24 channels"))
        page = browser.open(one, width=1280, height=450)
        picture(page, "flame", folder / "flame.png")
        picture(page, "steps", folder / "steps.png")
        page.resize(1280, 600)
        picture(page, "memory", folder / "memory.png")
        picture(browser.open(both, width=1280, height=500), "diff", folder / "difference.png")


def main() -> None:
    """Write the pictures."""
    if sys.argv[1:2] == ["--views"]:
        views(Path(sys.argv[2]) if len(sys.argv) > 2 else ROOT / "docs/images")
        return
    report = Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "build/demo/digits.html"
    picture = Path(sys.argv[2]) if len(sys.argv) > 2 else ROOT / "docs/images/report.png"
    with Chromium() as browser:
        page = browser.open(report, width=1280, height=450)
        page.view("timeline")
        page.run(_CHOOSE)
        page.run("new Promise((done) => setTimeout(done, 300))")
        page.screenshot(picture)
    print(f"wrote {picture}, {picture.stat().st_size} bytes")


if __name__ == "__main__":
    main()
