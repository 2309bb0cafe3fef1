# SPDX-License-Identifier: Apache-2.0
"""fastprof doctor: what works on this machine, and why the rest does not."""

from __future__ import annotations

import argparse
import json

from fastprof.cli.options import Subparsers, command_parser

__all__ = ["add_parser"]

_EPILOG = """\
Each line is one thing: "ok", "no" (not available, with the reason and what to do), or "--" (a
fact). Looks only and changes nothing. Of the packages it names only torch is imported, by another
process, which tries out what is recorded of it; that takes seconds.

exit code: 0, or 1 when fastprof cannot record at all.

examples:
  fastprof doctor
  fastprof doctor --json | jq .
"""


def add_parser(commands: Subparsers) -> None:
    """Add the subcommand."""
    parser = command_parser(commands, "doctor", "tell what works here and why not", _EPILOG)
    parser.add_argument("--json", action="store_true", help="one JSON object instead of text")
    parser.set_defaults(command=doctor)


def doctor(options: argparse.Namespace) -> int:
    """Look and tell; the exit code."""
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
