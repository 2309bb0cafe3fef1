# SPDX-License-Identifier: Apache-2.0
"""Run a program under a profile, as `fastprof run` and `fastprof explain --live` do."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from fastprof.cli.outcome import patient_with_ctrl_c
from fastprof.cli.program_call import ProgramCall
from fastprof.cli.script import Program, leave_as, wait_for_threads

__all__ = ["record_program"]


def record_program(
    profiler: Any, call: ProgramCall, what: str, report: Callable[[BaseException | None], int]
) -> int:
    """Run a program in one range under the profile, stop it, and leave as the program does.

    what: what report() does, for the message at Ctrl-C ("writing the trace"). report: called with the program's
    exception or None, after the stop, in the process that started the program only. Returns the result of report()
    if the program ended without an exception; else raises the program's exception.
    """
    from fastprof import record_function

    pid = os.getpid()
    raised: BaseException | None = None
    try:
        program = Program(call)
    except SyntaxError as error:
        raised = error
    if raised is not None:
        leave_as(raised)
    profiler.start()
    whole = record_function(call.label)
    whole.__enter__()
    try:
        try:
            program.run()
        finally:
            wait_for_threads()
    except BaseException as error:
        raised = error
    if os.getpid() == pid:  # a forked child reports nothing: the parent does
        with patient_with_ctrl_c(what):
            whole.__exit__(None, None, None)
            profiler.stop()
            failed = report(raised)
        if raised is None:
            return failed
    if raised is not None:
        leave_as(raised)
    return 0
