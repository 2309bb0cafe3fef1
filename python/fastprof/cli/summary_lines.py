# SPDX-License-Identifier: Apache-2.0
"""Lines around the table of `fastprof report` and `run`: findings of explain(), and what was not recorded."""

from __future__ import annotations

from typing import Any

__all__ = ["dump_lines", "missing_lines", "summary_lines"]

_MOST = 3


def summary_lines(table: Any) -> list[str]:
    """Return a few lines of text; [] if nothing is unusual. Paths are relative to the working folder."""
    from fastprof.analysis.explanation import explain
    from fastprof.base.formatting import format_memory
    from fastprof.base.short_paths import shorten_paths
    from fastprof.model.memory_rows import failed_requests

    found = explain(table, breakdown=False)
    texts = [text for text, _ in found.findings()]
    lines = [f"  {text}" for text in texts[:_MOST]]
    if len(texts) > _MOST:
        lines.append(f"  {len(texts) - _MOST} more: see `fastprof explain`")
    if lines:
        lines.insert(0, "What stands out:")
        if found.first is not None:
            lines.append(f"What to do first: {found.first.text}")
    failures = failed_requests(table)
    if failures:
        largest = max(failure.size_bytes for failure in failures)
        lines.append(
            f"Out of memory: {len(failures)} requests failed, the largest of {format_memory(largest)}: "
            "see `fastprof report --memory`"
        )
    return [shorten_paths(line) for line in lines]


def dump_lines(table: Any) -> list[str]:
    """Return why a dump of a flight recorder was made, and what went on then; nothing for another table."""
    if "recovered" not in table.metadata:
        return []
    from fastprof.flight_recorder.dumps import dump_facts

    return dump_facts(table)


def missing_lines(table: Any) -> list[str]:
    """Return what was requested but is not recorded in the table, and why. Its file may contain any value here."""
    missing = table.metadata.get("missing")
    if not isinstance(missing, dict):
        return []
    return [f"Not recorded: {what}: {reason}" for what, reason in missing.items()]
