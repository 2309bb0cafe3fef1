# SPDX-License-Identifier: Apache-2.0
"""Make docs/images/report.png, the README's picture: the report that `make demo` writes, in a headless Chromium.

``report_picture.py [REPORT] [PICTURE]``; the defaults are build/demo/digits.html and docs/images/report.png.
"""

from __future__ import annotations

import sys
from pathlib import Path

from chromium import Chromium

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


def main() -> None:
    """Write the picture."""
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
