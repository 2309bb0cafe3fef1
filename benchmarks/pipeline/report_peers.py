# SPDX-License-Identifier: Apache-2.0
"""The same program under fastprof and other profilers: slowdown, size of the report, time to open it in one Chromium.

``report_peers.py [--json FILE] [--rounds N] [--epochs N] [--tools NAME ...] [--speedscope FOLDER] [--keep FOLDER]``. Installs nothing: tools
that are not installed are left out, with a line that says so. --speedscope: the folder dist/release of the npm package, in
which the file that py-spy writes is opened.

``slowdown`` is the program's own training time (no imports, no report) to that of a plain run in the same round; the median
over rounds; ``cpu_slowdown`` the same of its CPU time, which other load affects less. ``open_s``: from the navigation to the end of the last long task (50 ms) of the page's start, at least the end
of loading and the first paint. ``requests``: addresses outside of the file that the page asked for while it opened.
"""

from __future__ import annotations

import argparse
import base64
import importlib.metadata
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[1] / "tests" / "tools"))

from chromium import Chromium, Page, PageError, find_chromium  # noqa: E402

PROGRAM = str(HERE / "report_program.py")
TIMEOUT_S = 300
_WATCH = """
window.longTasks = [];
new PerformanceObserver((list) => {
    for (const task of list.getEntries()) window.longTasks.push(task.startTime + task.duration);
}).observe({type: "longtask", buffered: true});
"""
_OPENED = """(() => {
    const loaded = performance.getEntriesByType("navigation")[0].loadEventEnd;
    const paints = performance.getEntriesByType("paint").map((paint) => paint.startTime);
    return Math.max(loaded, ...paints, ...window.longTasks);
})()"""


class Tool(NamedTuple):
    """How to profile the program and make a page. Each tool's commands run in a folder of their own."""

    name: str
    package: str
    run: Sequence[str]  # before the program
    report: str
    convert: Sequence[str] = ()  # after the run


PYTHON = (sys.executable, "-m")
TOOLS = (
    Tool("fastprof --calls", "fastprof", (*PYTHON, "fastprof", "run", "--calls", "--no-table", "-o", "fastprof.html"), "fastprof.html"),
    Tool("memray", "memray", (*PYTHON, "memray", "run", "-q", "-f", "-o", "memray.bin"), "memray.html", (*PYTHON, "memray", "flamegraph", "-f", "-o", "memray.html", "memray.bin")),
    Tool("memray --no-web", "memray", (*PYTHON, "memray", "run", "-q", "-f", "-o", "memray.bin"), "memray.html", (*PYTHON, "memray", "flamegraph", "--no-web", "-f", "-o", "memray.html", "memray.bin")),
    Tool("scalene --cpu-only", "scalene", (*PYTHON, "scalene", "run", "--cpu-only", "-o", "scalene.json"), "scalene-profile.html", (*PYTHON, "scalene", "view", "--standalone", "scalene.json")),
    Tool("viztracer", "viztracer", (*PYTHON, "viztracer", "--quiet", "--tracer_entries", "10000000", "-o", "viztracer.html", "--"), "viztracer.html"),
    Tool("pyinstrument", "pyinstrument", (*PYTHON, "pyinstrument", "-r", "html", "-o", "pyinstrument.html"), "pyinstrument.html"),
    Tool("py-spy, speedscope", "py-spy", ("py-spy", "record", "-f", "speedscope", "-o", "pyspy.speedscope.json", "--", sys.executable), "pyspy.speedscope.json"),
)  # fmt: skip


def run(command: Sequence[str], folder: Path) -> tuple[float, float]:
    """Run the program in a folder and return the seconds and CPU seconds that it says training took."""
    done = subprocess.run(
        command,
        cwd=folder,
        env={**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    found = re.search(r"trained in ([\d.]+) s, CPU ([\d.]+) s", done.stdout)
    if found is None:
        raise SystemExit(f"{' '.join(command)} failed:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    return float(found[1]), float(found[2])


def address(report: Path, speedscope: Path | None) -> str | None:
    """Return the address that shows a report; of a speedscope file None without speedscope."""
    if report.suffix == ".html":
        return report.as_uri()
    if speedscope is None:
        return None
    # What speedscope's own command does: a script that hands the file to the page.
    script = report.with_suffix(".js")
    data = base64.b64encode(report.read_bytes()).decode()
    script.write_text(
        f"speedscope.loadFileFromBase64({json.dumps(report.name)}, {json.dumps(data)})"
    )
    return f"{(speedscope / 'index.html').resolve().as_uri()}#localProfilePath={script}"


def opened(browser: Chromium, url: str, picture: Path | None) -> dict[str, Any]:
    """Open a page in a new tab; return the seconds until it was ready and the number of its network requests."""
    target = browser.call("Target.createTarget", url="about:blank")["targetId"]
    session = browser.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
    page = Page(browser, session, target)
    browser._listeners.append(page._on_event)
    for domain in ("Page", "Runtime", "Network", "Log"):
        browser.call(f"{domain}.enable", session)
    browser.call("Page.addScriptToEvaluateOnNewDocument", session, source=_WATCH)
    page.resize(1366, 768)
    browser.call("Page.bringToFront", session)
    browser.call("Page.navigate", session, url=url)
    last, begin = -1.0, time.monotonic()
    since = begin
    while last < 0 or time.monotonic() - since < 2.0:  # quiet for so long
        if time.monotonic() - begin > 60:
            raise TimeoutError("the page did not finish loading in 60 s")
        time.sleep(0.1)
        now = page.run(f"document.readyState === 'complete' ? {_OPENED} : -1")
        if now != last:
            last, since = now, time.monotonic()
    if picture is not None:
        page.screenshot(picture)
    requests = sorted({r for r in page.requests if r.startswith("http")})
    page.close()
    return {"open_s": last / 1000, "requests": len(requests)}


def main() -> None:
    """Profile, open and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--tools", nargs="+", help=f"of {', '.join(tool.name for tool in TOOLS)}")
    parser.add_argument("--epochs", type=int, default=100)
    parser.add_argument("--speedscope", type=Path, help="folder dist/release of the npm package")
    parser.add_argument("--keep", type=Path, help="folder for the reports and pictures of them")
    options = parser.parse_args()
    program = [PROGRAM, str(options.epochs)]
    tools = []
    for tool in TOOLS:
        if options.tools and tool.name not in options.tools:
            continue
        try:
            version = importlib.metadata.version(tool.package)
        except importlib.metadata.PackageNotFoundError:
            version = ""
            if tool.package == "fastprof":
                import fastprof

                version = fastprof.__version__
        if version:
            tools.append((tool, version))
        else:
            print(f"{tool.name} is not installed: left out")
    rows: dict[str, dict[str, Any]] = {
        tool.name: {"suite": "report peers", "case": tool.name, "version": version}
        for tool, version in tools
    }
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.keep or Path(temporary)
        folder = folder.resolve()
        ratios: dict[str, list[tuple[float, float]]] = {tool.name: [] for tool, _ in tools}
        plain = []
        for _ in range(options.rounds):
            plain.append(run([sys.executable, *program], Path(temporary)))
            for tool, _ in tools:
                own = folder / tool.name.replace(" ", "_").replace(",", "")
                own.mkdir(parents=True, exist_ok=True)
                took = run([*tool.run, *program], own)
                ratios[tool.name].append((took[0] / plain[-1][0], took[1] / plain[-1][1]))
        for tool, _ in tools:
            own = folder / tool.name.replace(" ", "_").replace(",", "")
            if tool.convert:
                subprocess.run(
                    tool.convert, cwd=own, check=True, capture_output=True, timeout=TIMEOUT_S
                )
            row = rows[tool.name]
            row["slowdown"] = statistics.median(wall for wall, _ in ratios[tool.name])
            row["cpu_slowdown"] = statistics.median(cpu for _, cpu in ratios[tool.name])
            row["report_bytes"] = (own / tool.report).stat().st_size
        if find_chromium() is None:
            print("no Chromium is installed: opening is not measured")
        else:
            for tool, _ in tools:
                own = folder / tool.name.replace(" ", "_").replace(",", "")
                url = address(own / tool.report, options.speedscope)
                if url is None:
                    print(f"{tool.name} is not opened: give --speedscope")
                    continue
                try:  # a browser each: a page may be more than it can hold
                    with Chromium(timeout_s=60) as browser:
                        found = [
                            opened(browser, url, own / "report.png") for _ in range(options.rounds)
                        ]
                except (TimeoutError, EOFError, OSError, PageError) as error:
                    rows[tool.name]["not_opened"] = str(error)
                    continue
                rows[tool.name]["open_s"] = min(each["open_s"] for each in found)
                rows[tool.name]["requests"] = found[0]["requests"]
    print(f"plain: {min(plain)[0]:.2f} s")
    for row in rows.values():
        opening = f"open {row['open_s']:.2f} s" if "open_s" in row else row.get("not_opened", "")
        print(
            f"{row['case']:20} {row['version']:9} slowdown {row['slowdown']:.2f}, CPU {row['cpu_slowdown']:.2f}  "
            f"{row['report_bytes'] / 1e6:8.2f} MB  {opening}  requests {row.get('requests', '-')}"
        )
    if options.json:
        with open(options.json, "a") as out:
            out.writelines(json.dumps(row) + "\n" for row in rows.values())


if __name__ == "__main__":
    main()
