# SPDX-License-Identifier: Apache-2.0
"""Refuse options of `fastprof run` that would have no effect beside others."""

from __future__ import annotations

import argparse

from fastprof.base import errors
from fastprof.cli.recording_options import recording_options_given

__all__ = ["check_run_options"]

# Options that have their effect, or ask for nothing, with a flight recorder.
_WITH_FLIGHT_RECORDER = {"--flight-recorder", "--sample", "--no-table", "--no-trace"}


def check_run_options(options: argparse.Namespace) -> None:
    """Raise errors.ValueError for an option that would have no effect beside others."""
    if options.sample_mode is not None:
        for name in ("flight_recorder", "ranks", "no_table"):
            if getattr(options, name):
                raise errors.ValueError(
                    f"--sample-mode chooses a table, and with --{name.replace('_', '-')} none is printed:"
                    " leave one out"
                )
    if options.flight_recorder is not None:
        given = set(recording_options_given(options, options.parser)) - _WITH_FLIGHT_RECORDER
        if given:
            raise errors.ValueError(
                "--flight-recorder writes no trace and records by options of its own, without"
                f" {', '.join(sorted(given))}. Leave these out, give what flight_recorder.start() takes as"
                " --flight-recorder=with_stack=true, or ask the running program with fastprof profile."
            )
    if options.no_trace:
        for name, value in (("-o", options.output), ("--to", options.to)):
            if value is not None:
                raise errors.ValueError(
                    f"{name} is about the trace, and --no-trace writes none. Leave one out."
                )
    if options.to is not None and options.output is None:
        page = "--html" if options.html is not None else "--open" if options.open else None
        instead = "--ranks" if options.ranks is not None else page
        if instead and (instead == "--ranks" or options.to != "html"):
            raise errors.ValueError(
                f"--to is the format of the trace, and {instead} writes none in its place unless -o is given. Add"
                " -o PATH, or leave --to out."
            )
