# SPDX-License-Identifier: Apache-2.0
"""Lines of text that show a LiveView in a terminal of a given size."""

from __future__ import annotations

import os
import time

from fastprof.base.formatting import format_memory, format_time
from fastprof.base.text_style import cut_to_width
from fastprof.base.visible_text import visible_text
from fastprof.flight_recorder.live_view import LiveView

__all__ = ["live_lines"]

_BLOCKS = " ▁▂▃▄▅▆▇█"
_SLOWEST = 3


def live_lines(
    view: LiveView, program: str, *, width: int = 80, height: int = 22, threads: bool = False
) -> list[str]:
    """Return at most `height` lines of at most `width` characters. threads: a row a thread instead of a row a name."""
    lines = _head(view, program, width)
    rows = max(height - len(lines), 3)
    if threads:
        lines += _thread_rows(view, rows)
    else:
        names = _name_rows(view, rows if not view.functions else rows // 2)
        recorded = any(not each["name"].startswith("ProfilerStep#") for each in view.names)
        if recorded or not view.functions:
            lines += names
        lines += _function_rows(view, height - len(lines))
    return [cut_to_width(visible_text(line), width) for line in lines[:height]]


def _head(view: LiveView, program: str, width: int) -> list[str]:
    state = "" if view.alive else "  ENDED"
    at = time.strftime("%H:%M:%S", time.localtime(view.unix_s))
    lines = [f"{program}  pid {view.pid}  {at}  the last {view.seconds:.1f} s{state}"]
    lines.append(
        f"CPU {100 * view.cpu_share:.0f} %  memory {format_memory(view.rss_bytes)}"
        f"  {view.events_per_s:,.0f} events/s"
    )
    lines.append(
        f"recorder: file {format_memory(view.recorder_bytes)},"
        f" about {100 * view.recorder_share:.2f} % of a CPU"
    )
    if view.left_out:
        lines.append(f"{view.left_out} chunks of records were overwritten while they were read")
    if view.step_count:
        median, p99, largest = (
            format_time(each * 1e6)
            for each in (view.step_median_s, view.step_p99_s, view.step_max_s)
        )
        lines.append(
            f"steps {view.steps_per_s:.1f}/s  median {median}  p99 {p99}  max {largest}"
            f"  ({view.step_count} seen)"
        )
        lines.append(_sparkline([each["duration_s"] for each in view.steps], width))
        slow = sorted(view.steps, key=lambda each: -each["duration_s"])[:_SLOWEST]
        shown = (f"#{each['number']} {format_time(each['duration_s'] * 1e6)}" for each in slow)
        lines.append(f"slowest: {', '.join(shown)}")
    return [*lines, ""]


def _sparkline(durations_s: list[float], width: int) -> str:
    """Return a bar a step, as high as the longest; of more steps than `width`, the newest."""
    shown = durations_s[-width:]
    largest = max(shown, default=0.0)
    if largest <= 0:
        return ""
    top = len(_BLOCKS) - 1
    return "".join(_BLOCKS[max(1, round(top * each / largest))] for each in shown)


def _name_rows(view: LiveView, rows: int) -> list[str]:
    lines = [f"{'SELF':>7} {'SELF':>10} {'TOTAL':>10} {'COUNT':>9}  NAME"]
    if not view.names:
        return [*lines, "  nothing was recorded: no range, op or call is instrumented"]
    for each in view.names[: rows - 1]:
        own, total = (format_time(each[key] * 1e6) for key in ("self_s", "total_s"))
        lines.append(
            f"{100 * each['share']:>6.1f}% {own:>10} {total:>10} {each['count']:>9}  {each['name']}"
        )
    return lines


def _function_rows(view: LiveView, rows: int) -> list[str]:
    if not view.functions or rows < 2:
        return []
    lines = [f"{'ON CPU':>7} {'WAITS':>10}  FUNCTION (sampled, itself)"]
    for each in view.functions[: rows - 1]:
        shares = f"{100 * each['running_share']:>6.1f}% {100 * each['waiting_share']:>9.1f}%"
        lines.append(f"{shares}  {each['name']} ({os.path.basename(each['file'])})")
    return lines


def _thread_rows(view: LiveView, rows: int) -> list[str]:
    lines = [f"{'BUSY':>7} {'EVENTS':>9}  THREAD"]
    for each in view.threads[: rows - 1]:
        lines.append(f"{100 * each['share']:>6.1f}% {each['events']:>9}  {each['name']}")
    return lines
