# SPDX-License-Identifier: Apache-2.0
"""Raise an exception at a chosen bytecode of fastprof's Python code, as Ctrl-C may."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

import fastprof

_PACKAGE = os.path.dirname(os.path.abspath(fastprof.__file__)) + os.sep


def run_interrupted(
    work: Callable[[], Any], at: int, exception: type[BaseException] = KeyboardInterrupt
) -> bool:
    """Run `work` and raise `exception` before the bytecode number `at` (from 0) of fastprof's code.

    True if it was raised and came out of `work`; False if `work` ended before.
    """
    left = [at]

    def trace(frame: FrameType, event: str, argument: Any) -> Any:
        if not frame.f_code.co_filename.startswith(_PACKAGE):
            return None
        frame.f_trace_opcodes = True
        if event == "opcode":
            left[0] -= 1
            if left[0] < 0:
                sys.settrace(None)
                raise exception
        return trace

    before = sys.gettrace()
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
