# SPDX-License-Identifier: Apache-2.0
"""fastprof doctor: report what works on this machine, and why the rest does not."""

from __future__ import annotations

import argparse
import json

from fastprof.cli.options import Subparsers, command_parser

__all__ = ["add_parser"]

_EPILOG = """\
Prints one line per feature: "ok", "no" (unavailable, with the reason and the remedy), or "--"
(information). Changes nothing. If torch is installed, a separate process imports it and records a small
profile, which takes seconds; no other listed package is imported.

exit code: 0 if fastprof can record, otherwise 1.

examples:
  fastprof doctor
  fastprof doctor --json | jq .
"""


def add_parser(commands: Subparsers) -> None:
    """Add the subcommand's parser."""
    parser = command_parser(
        commands, "doctor", "list the features available here, with reasons for the rest", _EPILOG
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of text")
    parser.set_defaults(command=doctor)


def doctor(options: argparse.Namespace) -> int:
    """Run all checks and print the findings; return the exit code."""
    from fastprof.cli.checks import package_checks, recording_check, system_checks

    recording = recording_check()
    findings = [*recording, *system_checks(), *package_checks()]
    if options.json:
        rows = [finding._asdict() for finding in findings]
        print(json.dumps({"can_record": bool(recording[0].ok), "findings": rows}, indent=1))
    else:
        width = max(len(finding.topic) for finding in findings)
        for topic, ok, text in findings:
            mark = "--" if ok is None else "ok" if ok else "no"
            print(f"{mark}  {topic:<{width}}  {text}")
    return 0 if recording[0].ok else 1
