# SPDX-License-Identifier: Apache-2.0
"""What makes a flight recorder write a dump beside slow steps: exceptions, a hang, memory; and torch's steps."""

from __future__ import annotations

import logging
import os
import sys
import threading
import time
from typing import TYPE_CHECKING, Any

from fastprof.adapters.import_watch import after_import, forget_import
from fastprof.flight_recorder.aggregation import Aggregation
from fastprof.profiler.recovery import process_name

if TYPE_CHECKING:
    from fastprof.flight_recorder.recorder import FlightRecorder

__all__ = ["Triggers"]

_OPTIMIZER = "torch.optim.optimizer"


class Triggers:
    """The triggers of a recorder, from arm() to disarm()."""

    def __init__(self, recorder: FlightRecorder) -> None:
        self._recorder = recorder
        self._before: tuple[Any, Any] | None = None  # the hooks that ours call
        self._own: tuple[Any, Any] | None = None
        self._optimizer_hook: Any = None
        self._first_optimizer: int | None = None
        self._hang_of = -1  # the step after which a hang was reported
        self._over_rss = False

    def arm(self) -> None:
        """Put the hooks of exceptions and of torch's optimizers into force."""
        if self._recorder.options.on_exception:
            self._before = sys.excepthook, threading.excepthook
            self._own = self._uncaught, self._uncaught_in_thread
            sys.excepthook, threading.excepthook = self._own
            # Event loops, uvloop's too, log there what no task's awaiter has taken.
            logging.getLogger("asyncio").addFilter(self._logged)
        after_import(_OPTIMIZER, self._count_optimizer_steps)

    def disarm(self) -> None:
        """Put the hooks back, unless the program has set others since: ours then only call the earlier ones."""
        forget_import(_OPTIMIZER, self._count_optimizer_steps)
        if self._optimizer_hook is not None:
            self._optimizer_hook.remove()
            self._optimizer_hook = None
        if self._own is not None and self._before is not None:
            logging.getLogger("asyncio").removeFilter(self._logged)
            if sys.excepthook == self._own[0]:
                sys.excepthook = self._before[0]
            if threading.excepthook == self._own[1]:
                threading.excepthook = self._before[1]
            self._own = None

    # ---- exceptions ----------------------------------------------------------------------------

    def _uncaught(self, kind: type[BaseException], error: BaseException, trace: Any) -> None:
        self._dump_of(error)
        if self._before is not None:
            self._before[0](kind, error, trace)

    def _uncaught_in_thread(self, args: Any) -> None:
        if args.exc_value is not None:
            name = getattr(args.thread, "name", None)
            self._dump_of(args.exc_value, f" in thread {name}" if name else "")
        if self._before is not None:
            self._before[1](args)

    def uncaught_in_worker(self, error: Exception) -> None:
        """Write a dump for an exception that ends a process of multiprocessing, which calls no hook for it."""
        if self._recorder.options.on_exception:
            self._dump_of(error, f" in {process_name()}")

    def _logged(self, record: logging.LogRecord) -> bool:
        if record.exc_info and isinstance(record.exc_info[1], Exception):
            self._dump_of(record.exc_info[1], f" in asyncio: {str(record.msg).splitlines()[0]}")
        return True

    def _dump_of(self, error: BaseException, where: str = "") -> None:
        ours = self._own is not None and os.getpid() == self._recorder.pid
        if not ours or not isinstance(error, Exception):
            return
        # At once: the process may be about to end.
        self._recorder.trigger("exception", f"{exception_text(error)}{where}", at_once=True)

    # ---- steps of torch's optimizers -----------------------------------------------------------

    def _count_optimizer_steps(self) -> None:
        """Count a step at each step of the first optimizer that makes one. Called when torch has them."""
        optimizer: Any = sys.modules.get(_OPTIMIZER)
        register: Any = getattr(optimizer, "register_optimizer_step_post_hook", None)
        if register is not None and self._optimizer_hook is None:
            self._optimizer_hook = register(self._optimizer_stepped)

    def _optimizer_stepped(self, optimizer: Any, args: Any, arguments: Any) -> None:
        if self._first_optimizer is None:
            self._first_optimizer = id(optimizer)
        if id(optimizer) == self._first_optimizer and os.getpid() == self._recorder.pid:
            self._recorder.step(by="optimizer")

    # ---- what is looked at from time to time ---------------------------------------------------

    @property
    def period_s(self) -> float | None:
        """Time between two calls of look(); None if nothing needs them."""
        options = self._recorder.options
        periods = [1.0] if options.max_rss_bytes is not None else []
        periods += [0.05] if options.dump_delay_s else []
        periods += [options.hang_s / 10] if options.hang_s is not None else []
        periods += [Aggregation.PERIOD_S] if options.aggregate else []
        return max(0.02, min(periods)) if periods else None

    def look(self) -> None:
        """Read ranges to aggregate, ask for dumps of a hang and of memory, and write those that are due."""
        recorder, options = self._recorder, self._recorder.options
        if recorder.aggregation is not None:
            recorder.aggregation.look()
        for reason, detail in recorder.take_due():
            recorder.dump_now(reason, detail)
        if options.hang_s is not None and recorder.steps_by:
            quiet_s, number = time.monotonic() - recorder.last_step_s, recorder.steps.count
            if quiet_s > options.hang_s and self._hang_of != number:
                self._hang_of = number
                recorder.trigger("hang", f"no step for {quiet_s:.1f} s, after step {number}")
        if options.max_rss_bytes is not None:
            over = (rss := rss_bytes()) > options.max_rss_bytes
            if over and not self._over_rss:
                bound = options.max_rss_bytes
                recorder.trigger("memory", f"{rss:,} bytes are resident, the bound is {bound:,}")
            self._over_rss = over


def exception_text(error: BaseException) -> str:
    """Return the exception's type and message in one line of at most 200 characters."""
    try:
        text = " ".join(str(error).split())[:200]
    except Exception:  # __str__ of the program's class
        text = ""
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def rss_bytes(pid: int | str = "self") -> int:
    """Return the resident memory of a process, default this one; 0 if it cannot be read."""
    try:
        with open(f"/proc/{pid}/statm", "rb") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError):
        return 0
