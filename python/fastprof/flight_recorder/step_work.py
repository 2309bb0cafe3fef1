# SPDX-License-Identifier: Apache-2.0
"""StepWork: functions that the program's thread calls between two steps, so that a profile has whole steps only."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future, TimeoutError
from typing import TypeVar

from fastprof.base import errors

__all__ = ["StepWork"]

_Work = Callable[[int], None]
_Result = TypeVar("_Result")


class StepWork:
    """Functions, each with the number of the step after which it is due. Any thread may call the methods."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting: list[tuple[int, _Work]] = []

    def take_due(self, number: int) -> list[_Work]:
        """Return and forget the functions that are due after step `number`, which they are called with."""
        if not self._waiting:
            return []
        with self._lock:
            due = [work for after, work in self._waiting if after <= number]
            self._waiting = [each for each in self._waiting if each[0] > number]
        return due

    def span(
        self,
        first: int,
        count: int,
        begin: Callable[[], _Result],
        end: Callable[[_Result], None],
        limit_s: float,
    ) -> _Result:
        """Let begin() be called after step `first`, and end() with its result `count` steps later; return the result.

        If step `first` is past, begin() is called after the next one. Waits for each for at most limit_s, on another
        thread than the program's. Raises what begin() and end() raise, and errors.StateError if the steps are too few
        or the program was interrupted meanwhile; after begin(), end() has been called then, too.
        """
        begun: Future[_Result] = Future()
        ended: Future[None] = Future()

        def at_first(number: int) -> None:
            _settle(begun, begin)
            if begun.exception() is None:
                self._after(number + count, at_last)

        def at_last(number: int) -> None:
            _settle(ended, lambda: end(begun.result()))

        self._after(first, at_first)
        result = self._wait(begun, at_first, limit_s)
        try:
            self._wait(ended, at_last, limit_s)
        except errors.StateError:
            end(result)
            raise
        return result

    def _after(self, number: int, work: _Work) -> None:
        with self._lock:
            self._waiting.append((number, work))

    def _forget(self, work: _Work) -> bool:
        with self._lock:
            before = len(self._waiting)
            self._waiting = [each for each in self._waiting if each[1] is not work]
            return len(self._waiting) < before

    def _wait(self, future: Future[_Result], work: _Work, limit_s: float) -> _Result:
        try:
            error = future.exception(limit_s)
        except TimeoutError:
            if self._forget(work):
                raise errors.StateError(
                    f"the steps were not reached in {limit_s:g} s. Call fastprof.flight_recorder.step() at the end of"
                    " each step (torch's optimizers are counted without), or give --seconds."
                ) from None
            error = future.exception()  # the work is being done
        if error is not None and not isinstance(error, Exception):
            raise errors.StateError(
                f"the program was interrupted between two steps by {type(error).__name__}: ask again"
            ) from error
        return future.result()


def _settle(future: Future[_Result], work: Callable[[], _Result]) -> None:
    """Give the future what work() returns or raises: errors are of who asked, interrupts are of the program, too."""
    try:
        result = work()
    except BaseException as error:
        future.set_exception(error)
        if not isinstance(error, Exception):
            raise
    else:
        future.set_result(result)
