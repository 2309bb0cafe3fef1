# SPDX-License-Identifier: Apache-2.0
"""Tracing of Python calls: which of them a profile records, and the tracing of one recording."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass

import fastprof._core as _core
from fastprof.base import errors

__all__ = ["CallFilter", "TracedCalls"]

_OWN_FOLDER = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep


@dataclass(frozen=True)
class CallFilter:
    """Which calls profile(python_calls=...) records; decided once for each function, not each call.

    files, exclude_files: folders or files, with what is in them. modules, exclude_modules: names of
    modules, with their submodules; they apply to functions written in Python. Without `files` and
    `modules` everything is recorded that is not excluded. c_calls: calls of functions written in C.
    max_depth: deeper calls are left out. A call that is left out does not hide those that it makes.
    min_duration_us: shorter calls are summed when the profile ends, into a row "[shorter calls]" for
    what a function called in succession, so that times add up; its argument "calls" is their number.
    Results and traces are smaller, but not what is held while recording.

        fastprof.profile(python_calls=fastprof.CallFilter(exclude_modules=["torch", "importlib"]))

    Any thread.
    """

    files: tuple[str, ...] = ()
    exclude_files: tuple[str, ...] = ()
    modules: tuple[str, ...] = ()
    exclude_modules: tuple[str, ...] = ()
    c_calls: bool = True
    max_depth: int | None = None
    min_duration_us: float = 0

    def __post_init__(self) -> None:
        for name in ("files", "exclude_files", "modules", "exclude_modules"):
            value: Iterable[str] = getattr(self, name)
            if isinstance(value, (str, os.PathLike)):
                raise errors.ValueError(f"CallFilter: {name} is a list of names: [{value!r}]")
            texts = tuple(os.fspath(one) for one in value)
            if "files" in name:  # code objects know the absolute paths of most files
                texts = tuple(t if t.startswith("<") else os.path.abspath(t) for t in texts)
            object.__setattr__(self, name, texts)
        if self.max_depth is not None and not 0 < self.max_depth < 1 << 32:
            raise errors.ValueError(
                f"CallFilter: max_depth must be at least 1, not {self.max_depth}"
            )
        if not 0 <= self.min_duration_us < 1e15:
            raise errors.ValueError(
                f"CallFilter: min_duration_us must be at least 0, not {self.min_duration_us}"
            )


class TracedCalls:
    """The tracing of one recording. Use from one thread at a time; the threads traced are all."""

    def __init__(self, chosen: CallFilter) -> None:
        self._hold = _core.PythonCalls(
            files=list(chosen.files),
            excluded_files=list(chosen.exclude_files),
            modules=list(chosen.modules),
            excluded_modules=list(chosen.exclude_modules),
            c_calls=chosen.c_calls,
            max_depth=chosen.max_depth if chosen.max_depth is not None else (1 << 32) - 1,
            own_folder=_OWN_FOLDER,
            library_folder=os.path.dirname(os.__file__) + os.sep,
        )

    def start(self) -> list[str]:
        """Begin, after the session was started. Return what is not traced as asked, as sentences."""
        others, other_filter = self._hold.begin()
        problems = [other_filter] if other_filter else []
        if others:
            problems.append(
                f"some threads are not traced, because another profiler is active there ({others}):"
                " end it first"
            )
        return problems

    def stop(self) -> list[str]:
        """End, before the session is stopped. Return what was not traced. A second call does nothing."""
        others = self._hold.end()
        if not others:
            return []
        return [
            f"the calls of some threads are missing since another profiler took over ({others}):"
            " run one at a time"
        ]
