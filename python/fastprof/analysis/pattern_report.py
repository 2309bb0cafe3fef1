# SPDX-License-Identifier: Apache-2.0
"""Anti-patterns as text, and in the form of PyTorch's report_all_anti_patterns."""

from __future__ import annotations

import json
import os
import re
from typing import Any

from fastprof.analysis.patterns import find_anti_patterns
from fastprof.base import errors
from fastprof.base.formatting import format_time

__all__ = ["report_all_anti_patterns"]

_FRAME = re.compile(r"^(.*\.py)[(:](\d+)")


def report_all_anti_patterns(
    prof: Any,
    should_benchmark: bool = False,
    print_enable: bool = True,
    json_report_dir: str | None = None,
) -> None:
    """Print the anti-patterns, and write torchtidy_report.json into a folder, as PyTorch's function does.

    prof: as in find_anti_patterns(). should_benchmark: has no effect; gains are estimated from the recording.
    json_report_dir: the file there, if there is one, is updated by source file. Raises errors.IoError if it
    cannot be written, errors.FormatError if it is not a report.
    """
    line = f"{'-' * 40}TorchTidy Report{'-' * 40}"
    messages, summaries = [line, "Matched Events:"], []
    report: dict[str, list[dict[str, Any]]] = {}
    seen: set[str] = set()
    for found in find_anti_patterns(prof):
        pattern = found.pattern
        summaries.append(
            f"{pattern.name}: {found.count} events matched. "
            f"Total Estimated Speedup: {format_time(found.gain_ns / 1000)}"
        )
        for row in found.events.tolist():
            location = found.rows.location(row)
            text = f"{pattern.description}\n[Source Code Location] {location}"
            if text in seen:
                continue
            seen.add(text)
            messages.append(text)
            place = _FRAME.match(location)
            file, number = (place[1], int(place[2])) if place else (location, 0)
            report.setdefault(file, []).append(
                {
                    "line_number": number,
                    "name": pattern.name,
                    "url": pattern.url,
                    "message": pattern.description,
                }
            )
    if json_report_dir is not None:
        _write(os.path.join(json_report_dir, "torchtidy_report.json"), report)
    if print_enable:
        print("\n".join([*messages, "Summary:", *summaries, line]))


def _write(path: str, report: dict[str, Any]) -> None:
    try:
        if os.path.exists(path):
            with open(path, encoding="utf-8") as file:
                report = {**json.load(file), **report}
        with open(path, "w", encoding="utf-8") as file:
            json.dump(report, file, indent=4)
    except OSError as error:
        raise errors.IoError(
            error.errno, f"cannot write {path!r}: {error.strerror}. Choose another folder."
        ) from None
    except (TypeError, ValueError):
        raise errors.FormatError(
            f"{path!r} is not a report of anti-patterns. Remove it, or choose another folder."
        ) from None
