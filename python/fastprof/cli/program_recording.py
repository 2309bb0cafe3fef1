# SPDX-License-Identifier: Apache-2.0
"""Run a program under a profile, as `fastprof run` and `fastprof explain --live` do."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from fastprof.base import errors
from fastprof.cli.outcome import patient_with_ctrl_c, print_message
from fastprof.cli.program_call import ProgramCall
from fastprof.cli.script import Program, end_threads, leave_as

__all__ = ["record_program"]


def record_program(
    profiler: Any,
    call: ProgramCall,
    what: str,
    report: Callable[[BaseException | None], int],
    backing_file: str | None = None,
) -> int:
    """Run a program in one range under the profile, stop it, and leave as the program does.

    what: what report() does, for the message at Ctrl-C ("writing the trace"). report: called with the program's
    exception or None, after the stop, in the process that started the program only. Returns the result of report()
    if the program ended without an exception; else raises the program's exception. If SIGTERM ends the program,
    report() is called as well; if it comes later, report() ends first. backing_file: the profile's, which is removed
    once report() has returned 0.
    """
    from fastprof import record_function
    from fastprof.record.sigterm import before_sigterm_kills  # loads the native module

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

    def finish() -> int:
        profiler.stop()
        failed = report(raised)
        if backing_file is not None:
            _remove(backing_file, failed)
        return failed

    with before_sigterm_kills(finish) as defer_sigterm:
        try:
            try:
                program.run()
            finally:
                if os.getpid() == pid:
                    whole.__exit__(None, None, None)  # waiting for threads is not the script's time
                end_threads()
            if os.getpid() == pid:
                defer_sigterm()  # here, so that what a handler of the program's raises is still the program's exception
        except BaseException as error:
            raised = error
        if program.code is None and isinstance(raised, (errors.IoError, SyntaxError)):
            profiler.stop()  # there is no such module, or none that compiles
            if backing_file is not None:
                _remove(backing_file, 0)
            if isinstance(raised, errors.IoError):
                raise raised
        elif os.getpid() == pid:  # a forked child reports nothing: the parent does
            defer_sigterm()
            with patient_with_ctrl_c(what):
                failed = finish()
            if raised is None:
                return failed
    if raised is not None:
        leave_as(raised)
    return 0


def _remove(backing_file: str, failed: int) -> None:
    """Remove the records if their results were written, else print where they are."""
    if not failed:
        with suppress(OSError):  # there was no room for the file, or the program removed it
            os.unlink(backing_file)
    elif os.path.exists(backing_file):
        print_message(
            f"fastprof: the records are in {backing_file}: fastprof recover -o trace.json {backing_file}"
        )
