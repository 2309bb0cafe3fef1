# SPDX-License-Identifier: Apache-2.0
"""Annotate a Python program: ranges, marks, counters, flows, memory reports, thread names."""

from __future__ import annotations

import functools
import inspect
from collections.abc import AsyncGenerator, Callable, Generator
from typing import Any, TypeVar, cast

from fastprof import _core
from fastprof.adapters.torch.tracers import in_dynamo, install
from fastprof.base.device_type import as_device_type
from fastprof.record.futures import chained, is_future

__all__ = [
    "_RecordFunctionFast",
    "counter",
    "flow",
    "flow_begin",
    "flow_end",
    "mark",
    "record_function",
    "report_memory_usage",
    "report_out_of_memory",
    "set_thread_name",
]

F = TypeVar("F", bound=Callable[..., Any])

mark = _core.mark
counter = _core.counter
flow_begin = _core.flow_begin
flow_end = _core.flow_end
set_thread_name = _core.set_thread_name


class flow:  # noqa: N801 - reads like a verb
    """An arrow in traces from one range to another: `f = flow(7)`, `f.begin()` here, `f.end()` there.

    id: any 64-bit int; objects with the same id are one arrow, so begin() and end() may be called on
    different threads or in different processes. name: the arrow's name. Each call belongs to the
    innermost open range of its thread.
    """

    __slots__ = ("id", "name")

    def __init__(self, id: int, name: str = "flow") -> None:
        self.id = id
        self.name = name

    def begin(self) -> None:
        """Start the arrow at the current range."""
        _core.flow_begin(self.id, self.name)

    def end(self) -> None:
        """End the arrow at the current range."""
        _core.flow_end(self.id, self.name)


record_function = _core.record_function
install(record_function)  # torch.jit, Dynamo and export treat it like torch's own record_function


def _RecordFunctionFast(  # noqa: N802 - PyTorch's name
    name: str, input_values: Any = None, keyword_values: Any = None
) -> record_function:
    """Return a record_function; the name is that of PyTorch's class for frequently entered code.

    keyword_values: dict of str to int, float, bool, str or lists of these; the range's arguments.
    Its "scope" is ignored (the range has scope USER_SCOPE), and so is input_values. Any thread.
    """
    keywords = {key: value for key, value in (keyword_values or {}).items() if key != "scope"}
    return record_function(name, **keywords)


def _end_on_future(range_: record_function, future: Any) -> Any:
    """Make `future` end the open `range_`; return the chained future. Called by the native record_function."""
    if not is_future(future):
        chained(future, lambda: None)  # raises the error for an unsupported type
    return chained(future, range_._detach().end)


def _decorate(range_: record_function, function: F) -> F:
    """Wrap `function` in a range around each call; implements `@record_function("name")`.

    A generator gets a range around each of its steps, so that its consumer's time does not count.
    An async function, and each step of an async generator, gets an async range from begin to end,
    because other tasks may run on the same thread in between. Of a static or class method, the
    function is wrapped.
    """
    if isinstance(function, (staticmethod, classmethod)):
        return type(function)(_decorate(range_, function.__func__))
    if not callable(function):
        raise TypeError(
            f"record_function({range_.name!r}) can decorate a function, not {type(function).__name__}"
        )
    begin_async = range_._begin_async
    wrapper: Any
    if inspect.isasyncgenfunction(function):

        @functools.wraps(function)
        async def wrapper(*args: Any, **kwargs: Any) -> AsyncGenerator[Any, Any]:
            steps = function(*args, **kwargs)
            try:
                sent: Any = None
                error: BaseException | None = None
                while True:
                    open_range = begin_async()
                    try:
                        if error is None:
                            value = await steps.asend(sent)
                        else:
                            value = await steps.athrow(error)
                    except StopAsyncIteration:
                        return
                    finally:
                        open_range.end()
                    sent = error = None
                    try:
                        sent = yield value
                    except GeneratorExit:  # aclose() runs the function's `finally`: a step, too
                        open_range = begin_async()
                        try:
                            await steps.aclose()
                        finally:
                            open_range.end()
                        raise
                    except BaseException as thrown:
                        error = thrown
            finally:
                await steps.aclose()

    elif inspect.iscoroutinefunction(function):

        @functools.wraps(function)
        async def wrapper(*args: Any, **kwargs: Any) -> Any:
            open_range = begin_async()
            try:
                return await function(*args, **kwargs)
            finally:
                open_range.end()

    elif inspect.isgeneratorfunction(function):

        @functools.wraps(function)
        def wrapper(*args: Any, **kwargs: Any) -> Generator[Any, Any, Any]:
            if in_dynamo():  # ranges are ignored there, and Dynamo cannot trace the code below
                with range_:
                    steps = function(*args, **kwargs)
                return (yield from steps)
            steps = function(*args, **kwargs)
            try:
                advance, argument = steps.send, None
                while True:
                    try:
                        with range_:
                            value = advance(argument)
                    except StopIteration as end:
                        return end.value
                    try:
                        advance, argument = steps.send, (yield value)
                    except GeneratorExit:  # close() runs the function's `finally`: a step, too
                        with range_:
                            steps.close()
                        raise
                    except BaseException as thrown:
                        advance, argument = steps.throw, thrown
            finally:
                steps.close()

    else:

        @functools.wraps(function)
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            with range_:
                return function(*args, **kwargs)

    return cast(F, wrapper)


_core.leave_out_frames_of(_decorate.__code__.co_filename)  # hide the wrappers above from stacks


def report_memory_usage(
    ptr: int,
    alloc_size_bytes: int,
    total_allocated_bytes: int = 0,
    total_reserved_bytes: int = 0,
    device_type: Any = "cpu",
    device_index: int = 0,
) -> None:
    """Report an allocation (bytes > 0) or a free (bytes < 0) on this thread; for allocators.

    ptr: address. alloc_size_bytes: signed size of the change. total_allocated_bytes and
    total_reserved_bytes: the allocator's totals after the change, 0 if unknown. device_type: a name
    ("cpu", "cuda"), number or torch's enumerator; ValueError if unknown. device_index: of that type.
    Recorded by profiles with profile_memory=True and by C++ sessions that include memory. Any thread.
    """
    _core.report_memory_usage(
        ptr,
        alloc_size_bytes,
        total_allocated_bytes,
        total_reserved_bytes,
        int(as_device_type(device_type)),
        device_index,
    )


def report_out_of_memory(
    alloc_size_bytes: int,
    total_allocated_bytes: int = 0,
    total_reserved_bytes: int = 0,
    device_type: Any = "cpu",
    device_index: int = 0,
) -> None:
    """Report a failed allocation request of alloc_size_bytes on this thread; for allocators.

    The other parameters, errors and the thread rule are those of report_memory_usage().
    """
    _core.report_out_of_memory(
        alloc_size_bytes,
        total_allocated_bytes,
        total_reserved_bytes,
        int(as_device_type(device_type)),
        device_index,
    )
