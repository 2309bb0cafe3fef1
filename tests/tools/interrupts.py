# SPDX-License-Identifier: Apache-2.0
"""Raise an exception at a chosen place of fastprof's Python code where CPython may raise KeyboardInterrupt.

CPython checks for signals only when a call has returned, when a function begins and when a loop jumps back.
It does not check between the end of a `with` block and the call of its __exit__.
"""

from __future__ import annotations

import dis
import os
import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

import fastprof

_LOOKS_FOR_SIGNALS = (
    "CALL",
    "RESUME",
    "JUMP_BACKWARD",
    "JUMP_ABSOLUTE",
)  # how names of bytecodes begin
# Follows a call at the end of a `with` block: the exception would be raised after the block.
_BEHIND_A_BLOCK = ("SWAP", "LOAD_CONST", "COPY")
_PACKAGE = os.path.dirname(os.path.abspath(fastprof.__file__)) + os.sep


# A garbage collection may begin anywhere. CPython prints and discards exceptions of its callbacks.
_CALLED_BY_THE_COLLECTOR = "_collecting"


def run_interrupted(
    work: Callable[[], Any], at: int, exception: type[BaseException] = KeyboardInterrupt
) -> bool:
    """Run `work` and raise `exception` at place number `at` (from 0) of fastprof's code.

    Returns True if the exception left `work`, and False if `work` has fewer places and ended.
    """
    left = [at]
    before_in: dict[FrameType, str] = {}  # the name of the bytecode that a frame has just run

    def trace(frame: FrameType, event: str, argument: Any) -> Any:
        if not frame.f_code.co_filename.startswith(_PACKAGE):
            return None
        if frame.f_code.co_name == _CALLED_BY_THE_COLLECTOR:
            return None
        frame.f_trace_opcodes = True
        if event == "return":
            before_in.pop(frame, None)
        if event == "opcode":
            now = dis.opname[frame.f_code.co_code[frame.f_lasti]]
            last = before_in.get(frame, "")
            before_in[frame] = now
            if last.startswith(_LOOKS_FOR_SIGNALS) and now not in _BEHIND_A_BLOCK:
                left[0] -= 1
                if left[0] < 0:
                    sys.settrace(None)
                    raise exception
        return trace

    before = sys.gettrace()
    # CPython 3.12.1 looks only in settrace() whether some frame of the process wants these events.
    sys._getframe().f_trace_opcodes = True
    sys.settrace(trace)
    try:
        work()
    except exception:
        if left[0] >= 0:
            raise
        return True
    finally:
        sys.settrace(before)
    # A finalizer may have swallowed it, as the interpreter does.
    return left[0] < 0
