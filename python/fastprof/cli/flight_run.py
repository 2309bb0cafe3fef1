# SPDX-License-Identifier: Apache-2.0
"""Run a program under a flight recorder: fastprof run --flight-recorder."""

from __future__ import annotations

import os
from typing import Any

from fastprof.cli.program_call import ProgramCall
from fastprof.cli.program_recording import record_program

__all__ = ["run_under_recorder"]


class _Recorder:
    """The flight recorder as record_program() uses a profile."""

    def __init__(self, options: dict[str, Any]) -> None:
        self._options = options

    def start(self) -> None:
        from fastprof import flight_recorder

        flight_recorder.start(**self._options)

    def stop(self) -> None:
        """It goes on until the interpreter ends: the program may fail on the way there."""


def run_under_recorder(call: ProgramCall, options: str, sample_hz: float | None = None) -> int:
    """Run the program; exit the way it does. options: "1", or "NAME=VALUE,..." of flight_recorder.start().

    sample_hz: also one of these options, from `--sample`.

    Processes that the program starts, and that import fastprof, have a recorder with the same options.
    """
    from fastprof import flight_recorder
    from fastprof.flight_recorder.option_text import options_of

    if sample_hz is not None:
        options = ",".join([*([] if options == "1" else [options]), f"sample_hz={sample_hz}"])
    arguments = options_of(options)
    for name in ("dump_folder", "aggregate"):
        if isinstance(arguments.get(name), str):  # one folder, whatever those of the processes are
            arguments[name] = os.path.abspath(arguments[name])
    text = ",".join(f"{name}={value}" for name, value in arguments.items())
    os.environ[flight_recorder.VARIABLE] = text or "1"
    return record_program(_Recorder(arguments), call, "ending the recorder", lambda raised: 0)
