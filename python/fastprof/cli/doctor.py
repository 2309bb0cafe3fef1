# SPDX-License-Identifier: Apache-2.0
"""fastprof doctor: report what works on this machine and why the rest does not, or what is wrong with a trace."""

from __future__ import annotations

import argparse
import json
from typing import TYPE_CHECKING

from fastprof import __version__
from fastprof.base.formatting import counted
from fastprof.cli.loading import load_trace
from fastprof.cli.options import Subparsers, add_reading_options, command_parser
from fastprof.cli.parser import OldSpelling

if TYPE_CHECKING:
    from fastprof.cli.checks import Finding

__all__ = ["add_parser"]

_MACHINE = (
    "libraries",
    "CPUs",
    "clock",
    "membarrier",
    "perf counters",
    "huge pages",
    "NVTX",
    "ITT",
)

_EPILOG = """\
Prints what is recorded here in five lines; with -v, one line per feature: "ok", "no" (unavailable, with
the reason and the remedy), or "--" (information). Changes nothing. If torch is installed, a separate
process imports it and records a small profile, which takes seconds; no other listed package is imported.

With TRACE, prints what is wrong with the times and links of that trace, and what of it is not read; the
machine is not examined.

exit code: 0 if fastprof can record, or nothing is wrong with the trace; otherwise 1.

examples:
  fastprof doctor
  fastprof doctor -v
  fastprof doctor --as-json | jq .
  fastprof doctor torch_trace.json.gz
"""


def add_parser(commands: Subparsers) -> None:
    """Add the subcommand's parser."""
    parser = command_parser(
        commands, "doctor", "list the features available here, with reasons for the rest", _EPILOG
    )
    parser.add_argument(
        "-v", "--verbose", action="store_true", help="print a line per feature, with reasons"
    )
    as_json = parser.add_argument(
        "--as-json", action="store_true", help="print one JSON object instead of text"
    )
    parser.add_argument("--json", action=OldSpelling, now=as_json)
    parser.add_argument(
        "trace", metavar="TRACE", nargs="?", help="examine this trace instead; - is standard input"
    )
    add_reading_options(parser)
    parser.set_defaults(command=doctor)


def doctor(options: argparse.Namespace) -> int:
    """Run all checks and print the findings; return the exit code."""
    if options.trace is not None:
        return _examine(options)
    from fastprof.cli.checks import package_checks, recording_check, system_checks

    recording = recording_check()
    findings = [*recording, *system_checks(), *package_checks()]
    if options.as_json:
        rows = [finding._asdict() for finding in findings]
        print(json.dumps({"can_record": bool(recording[0].ok), "findings": rows}, indent=1))
    elif options.verbose:
        _print(findings)
    else:
        _print(_overview(findings))
        print(
            "`fastprof doctor -v` lists every feature, and what to do about those that are missing."
        )
    return 0 if recording[0].ok else 1


def _examine(options: argparse.Namespace) -> int:
    from fastprof.analysis.trace_checks import trace_problems, unread_text

    table = load_trace(options.trace, options)
    problems = trace_problems(table)
    unread = unread_text(table.metadata)
    if options.as_json:
        found = {"rows": len(table), "problems": problems, "not_read": unread}
        print(json.dumps({"trace": options.trace, **found}, indent=1))
        return 1 if problems else 0
    lines = [f"problem: {text}" for text in problems] or [
        "nothing is wrong with its times and links"
    ]
    print(f"{options.trace}: {counted(len(table), 'row')}")
    print("\n".join([*lines, f"not read: {unread}"] if unread else lines))
    return 1 if problems else 0


def _print(findings: list[Finding]) -> None:
    width = max(len(finding.topic) for finding in findings)
    for topic, ok, text in findings:
        mark = "--" if ok is None else "ok" if ok else "no"
        print(f"{mark}  {topic:<{width}}  {text}")


def _overview(findings: list[Finding]) -> list[Finding]:
    """Return four lines: recording, torch, devices, the machine."""
    from fastprof.cli.checks import NO_DEVICE, Finding
    from fastprof.record.activities import ProfilerActivity

    by_topic = {finding.topic: finding for finding in findings}
    recording = by_topic["recording"]
    lines = [recording]
    if recording.ok:
        where = (
            f"fastprof {__version__}, Python {by_topic['python'].text}, {by_topic['system'].text}"
        )
        lines = [Finding("recording", True, f"ranges, Python calls and memory, by {where}")]
    torch = [finding for finding in findings if finding.topic == "torch"]
    first = next((finding for finding in torch if not finding.ok), torch[0])
    if first.text.startswith("not installed"):  # fastprof does not need it
        first = first._replace(ok=None)
    lines.append(first)
    kinds = [activity.name for activity in ProfilerActivity if activity.name != "CPU"]
    devices = [f for f in findings if f.topic in kinds and not f.text.startswith(NO_DEVICE)]
    texts = [f.topic if f.ok else f"{f.topic}: {f.text}" for f in devices]
    well = all(f.ok for f in devices) if devices else None
    lines.append(Finding("devices", well, "; ".join(texts) or "no GPU found"))
    missing = [f for f in findings if f.ok is False and f.topic in _MACHINE]
    texts = [f"{f.topic} ({f.text.partition(': ')[0]})" for f in missing]
    text = f"records, without {', '.join(texts)}" if texts else "all features that fastprof uses"
    lines.append(Finding("machine", None if texts else True, text))
    return lines
