# SPDX-License-Identifier: Apache-2.0
"""summary_html and summary_text: a profile as a notebook or an interactive shell shows it, at bounded cost.

For a running profile only its state is shown: nothing is stopped or read, and no warning is issued.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fastprof.base.formatting import counted, format_time
from fastprof.base.html_table import html_note

if TYPE_CHECKING:
    from fastprof.profiler.profiling import profile

__all__ = ["summary_html", "summary_text"]


def summary_html(profiler: profile) -> str:
    """Return the recording's summary line, what is missing, and the averages by self time, as HTML."""
    state = _state(profiler)
    if state:
        return html_note(state)
    lines = [_line(profiler), *_missing(profiler)]
    averages = _averages(profiler)
    return "".join(map(html_note, lines)) + (averages._repr_html_() if len(averages) else "")


def summary_text(profiler: profile) -> str:
    """Return the content of summary_html() as text."""
    state = _state(profiler)
    if state:
        return f"<fastprof.profile: {state}>"
    lines = [_line(profiler), *_missing(profiler)]
    averages = _averages(profiler)
    return "\n".join([*lines, averages._short_text()] if len(averages) else lines)


def _averages(profiler: profile) -> Any:
    """Return the averages; of calls, too, if nothing else was recorded."""
    averages = profiler.key_averages()
    recorded = any(len(result.table) for result in profiler._results)
    return (
        averages
        if len(averages) or not recorded
        else profiler.key_averages(include_python_functions=True)
    )


def _state(profiler: profile) -> str:
    """Return why there is nothing to show; "" if there is a recording."""
    if not profiler.enabled:
        return "disabled: nothing is recorded"
    if profiler._stopping:
        return "stopping; call stop() again to complete an interrupted stop"
    if profiler._records() and not profiler._results:
        return "recording; results are there after stop()"
    if profiler._records():
        return "recording again; results are there after stop()"
    if not profiler._results:
        return "nothing was recorded" if profiler._ended else "not started"
    if any(result.options.trace_only for result in profiler._results):
        return "recorded with trace_only=True; write the events with export_chrome_trace()"
    return ""


def _line(profiler: profile) -> str:
    # The last recording, as everything but events() shows it.
    table = profiler._results[-1].table
    span = format_time((table.t1_ns - table.t0_ns) / 1e3)
    if not any(len(result.table) for result in profiler._results):
        return (
            f"nothing was recorded in {span}: add ranges with fastprof.record_function, or record calls with "
            "profile(python_calls=True)"
        )
    threads = len(set(table.tracks.thread_ids.tolist())) if len(table.tracks) else 1
    name = table.process_name or "profile"
    text = f"{name}: {counted(len(table), 'row')} on {counted(threads, 'thread')} in {span}"
    if len(profiler._results) > 1:
        text += f" (the last of {len(profiler._results)} recordings)"
    return text


def _missing(profiler: profile) -> list[str]:
    return [f"not recorded: {what}: {reason}" for what, reason in profiler.missing.items()]
