# SPDX-License-Identifier: Apache-2.0
"""Tracing of Python calls: CallFilter selects the calls, TracedCalls traces them during one recording."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import fastprof._core as _core
from fastprof.base import errors
from fastprof.base.observer import Observer
from fastprof.base.short_paths import absolute_path
from fastprof.record.subinterpreters import Subinterpreters

__all__ = ["CallFilter", "TracedCalls"]

_OWN_FOLDER = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep


@dataclass(frozen=True)
class CallFilter:
    """Which calls profile(python_calls=...) records; decided once for each function, not each call.

    files, exclude_files: files, or folders with all files in them. modules, exclude_modules: modules with
    their submodules; they apply to functions written in Python. Without `files` and `modules`, everything
    that is not excluded is recorded. c_calls: record calls of functions written in C. max_depth: leave out
    deeper calls. The calls made by a call that is left out are still recorded.
    min_duration_us: when the profile ends, sum shorter calls: consecutive ones of one caller become a row
    "[shorter calls]" with their total time, whose argument "calls" is their number. This makes results and
    traces smaller, but not the memory used while recording.
    sum_frequent: bound the cost. Calls of a function of which 1,000 came within 20 ms are counted instead of
    recorded, until they become rarer, so that their time is their caller's; the 20 ms double with every 200,000
    recorded calls. The numbers are in the table's metadata, "summed_calls". Imports of installed packages are
    recorded without the calls that they make.

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
    sum_frequent: bool = False

    def __post_init__(self) -> None:
        for name in ("files", "exclude_files", "modules", "exclude_modules"):
            value: Iterable[str] = getattr(self, name)
            if isinstance(value, (str, os.PathLike)):
                raise errors.ValueError(
                    f"CallFilter: {name} must be a list of names. Use [{value!r}]."
                )
            texts = tuple(os.fspath(one) for one in value)
            if "files" in name:  # most code objects have absolute paths
                texts = tuple(t if t.startswith("<") else absolute_path(t) for t in texts)
            object.__setattr__(self, name, texts)
        if self.max_depth is not None and not 0 < self.max_depth < 1 << 32:
            raise errors.ValueError(
                f"CallFilter: max_depth must be at least 1, not {self.max_depth}"
            )
        if not 0 <= self.min_duration_us < 1e15:
            raise errors.ValueError(
                f"CallFilter: min_duration_us must be at least 0, not {self.min_duration_us}"
            )


class TracedCalls(Observer):
    """Tracing of all threads during one recording. Use the object from one thread at a time.

    metadata(): "summed_calls", name -> number of the calls that were counted only (CallFilter.sum_frequent).
    """

    missing = "python_calls"

    def __init__(self, chosen: CallFilter) -> None:
        self._summed: dict[str, int] = {}
        self._subinterpreters: Subinterpreters | None = None
        self._sum_frequent = chosen.sum_frequent
        self._hold = _core.PythonCalls(
            files=list(chosen.files),
            excluded_files=list(chosen.exclude_files),
            modules=list(chosen.modules),
            excluded_modules=list(chosen.exclude_modules),
            c_calls=chosen.c_calls,
            max_depth=chosen.max_depth if chosen.max_depth is not None else (1 << 32) - 1,
            sum_frequent=chosen.sum_frequent,
            own_folder=_OWN_FOLDER,
            library_folder=os.path.dirname(os.__file__) + os.sep,
        )

    def start(self) -> list[str]:
        self._subinterpreters = Subinterpreters()
        self._subinterpreters.begin()
        others, other_filter = self._hold.begin()
        problems = [other_filter] if other_filter else []
        if others:
            problems.append(
                f"some threads are not traced, because another profiler is active there ({others}):"
                " end it first"
            )
        return problems

    def finish(self) -> list[str]:
        if self._sum_frequent and self._hold.active:
            self._summed = dict(_core.summed_calls())
        others = self._hold.end()
        problems = []
        if others:
            problems.append(
                f"calls of some threads are missing while another profiler replaced the tracing ({others}):"
                " run one profiler at a time"
            )
        if self._subinterpreters is not None and self._subinterpreters.end():
            problems.append(
                "calls in subinterpreters are not recorded: profile the code in the main interpreter,"
                " or in a process of its own with follow_children=True"
            )
        self._subinterpreters = None
        return problems

    def facts(self) -> dict[str, str]:
        if not self._sum_frequent:
            return {}
        left_out = "of functions called very often, some are left out; their time is their callers'"
        return {"calls": left_out}

    def metadata(self) -> dict[str, Any]:
        return {"summed_calls": self._summed} if self._summed else {}
