# SPDX-License-Identifier: Apache-2.0
"""record_function: names, entering, arguments, decorators, and the events that a profile gets."""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import AsyncIterator, Iterator
from typing import Any

import numpy as np
import pytest
from waiting_threads import run_threads

import fastprof
from fastprof import record_function
from fastprof.model.table import EventFlag


def names(profile: fastprof.profile) -> list[str]:
    table = profile.event_table
    return [table.name(row) for row in range(len(table))]


def rows(profile: fastprof.profile, name: str) -> list[int]:
    return [row for row, found in enumerate(names(profile)) if found == name]


def parent_name(profile: fastprof.profile, name: str) -> str | None:
    table = profile.event_table
    parent = int(table.column("parent")[rows(profile, name)[0]])
    return None if parent < 0 else table.name(parent)


def test_nesting_and_exceptions_pass_through() -> None:
    with fastprof.profile() as p:
        with pytest.raises(KeyError), record_function("outer"):
            with record_function("inner"):
                raise KeyError("x")
    assert names(p) == ["outer", "inner"]
    assert parent_name(p, "inner") == "outer"
    assert bool((p.event_table.column("flags") & EventFlag.FINISHED).all())
    assert bool((p.event_table.duration_ns > 0).all())


def test_nothing_is_recorded_outside_a_profile() -> None:
    with record_function("before"):
        pass
    with fastprof.profile() as p:
        pass
    assert len(p.event_table) == 0


def test_begun_before_and_ended_before_the_profile_ends() -> None:
    outer = record_function("outer")
    outer.__enter__()
    with fastprof.profile() as p, record_function("inner"):
        pass
    outer.__exit__(None, None, None)
    assert names(p) == ["inner"]


def test_left_open_at_the_end_is_unfinished() -> None:
    with fastprof.profile() as p:
        left = record_function("left")
        left.__enter__()
    left.__exit__(None, None, None)
    assert names(p) == ["left"]
    assert p.event_table.unfinished == 1


def test_one_that_is_never_left_ends_with_the_range_around_it() -> None:
    def begin() -> None:  # a call does not end what it began
        record_function("never left").__enter__()

    with fastprof.profile(python_calls=True) as p:
        with record_function("outer"):
            begin()
            with record_function("inside"):
                pass
        with record_function("after"):
            pass
    events = {e.name: e for e in p.events() if not e.is_python_function}
    never, outer = events["never left"], events["outer"]
    assert not never.finished
    assert never.time_range.end == outer.time_range.end
    assert events["inside"].cpu_parent is never
    assert events["after"].cpu_parent is outer.cpu_parent


def test_nul_is_shown_as_its_symbol() -> None:
    with fastprof.profile() as p, record_function("a\0b"):
        pass
    assert names(p) == ["a␀b"]


@pytest.mark.parametrize("wrong", [None, 3, b"bytes", ["x"]])
def test_a_name_must_be_a_str(wrong: Any) -> None:
    with pytest.raises(TypeError, match="must be a str"):
        record_function(wrong)


def test_wrong_calls() -> None:
    make: Any = record_function
    with pytest.raises(TypeError, match="needs a name"):
        make()
    with pytest.raises(TypeError, match="3 positional"):
        make("a", "b", "c")
    with pytest.raises(TypeError, match="given twice"):
        make("a", name="b")
    assert make(name="b").name == "b"


def test_exit_without_enter() -> None:
    with pytest.raises(RuntimeError, match="not open"):
        record_function("x").__exit__(None, None, None)


def test_reuse_and_reentry() -> None:
    again = record_function("again")
    with fastprof.profile() as p:
        with again, again, again, again, again, again, again:
            pass
        with again:
            pass
    assert names(p) == ["again"] * 8
    assert list(p.event_table.column("parent")) == [-1, 0, 1, 2, 3, 4, 5, -1]


def test_one_object_on_several_threads() -> None:
    shared = record_function("shared")
    count, each = 4, 200
    barrier = threading.Barrier(count)

    def work() -> None:
        barrier.wait()
        for _ in range(each):
            with shared:
                with shared:
                    pass

    with fastprof.profile() as p:
        run_threads(*(threading.Thread(target=work) for _ in range(count)))
    table = p.event_table
    assert len(table) == count * each * 2
    assert not (table.column("flags") & EventFlag.CROSS_THREAD_END).any()
    assert len(table.tracks) == count
    assert int((table.column("parent") >= 0).sum()) == count * each


def test_ended_on_another_thread() -> None:
    travelling = record_function("travelling")
    with fastprof.profile() as p:
        travelling.__enter__()
        run_threads(threading.Thread(target=travelling.__exit__, args=(None, None, None)))
    table = p.event_table
    assert names(p) == ["travelling"]
    assert table.column("flags")[0] & EventFlag.CROSS_THREAD_END
    assert table.column("flags")[0] & EventFlag.FINISHED
    assert int(table.column("end_track")[0]) >= 0
    assert p.events()[0].is_async


def test_arguments() -> None:
    with fastprof.profile() as p:
        with record_function(
            "x",
            "text",
            step=3,
            rate=0.5,
            flag=True,
            mode="é\ud800",
            tags=["a", "b"],
            count=np.uint8(7),
            loss=np.float32(0.25),
            done=np.bool_(False),
            sizes=[np.int64(2), np.float16(0.5)],
            skipped=object(),
            array=np.zeros(2),
        ):
            pass
    event = p.events()[0]
    assert repr(event.kwinputs) == repr({
        "step": 3, "rate": 0.5, "flag": True, "mode": "é\ud800", "count": 7, "loss": 0.25, "done": False,
        "tags": ["a", "b"], "sizes": [2, 0.5],
    })  # fmt: skip
    assert event.concrete_inputs == ["text"]


def test_shapes_flops_and_node() -> None:
    with fastprof.profile() as p:
        with record_function("x", shapes=[[2, 3], [], (4,)], flops=24, node_id=5):
            pass
        with record_function("y"):
            pass
    first, second = p.events()
    assert first.input_shapes == [[2, 3], [], [4]]
    assert (first.flops, first.node_id) == (24, 5)
    assert (second.flops, second.node_id) == (None, -1)
    averages = p.key_averages(group_by_input_shape=True)
    assert sorted(str(a.input_shapes) for a in averages) == ["[[2, 3], [], [4]]", "[]"]


@pytest.mark.parametrize(
    "wrong", [{"shapes": 3}, {"shapes": [3]}, {"flops": "x"}, {"node_id": "x"}]
)
def test_wrong_payload(wrong: dict[str, Any]) -> None:
    with pytest.raises(TypeError):
        record_function("x", **wrong)


def test_decorators() -> None:
    @record_function("function")
    def function(n: int) -> int:
        """doc"""
        return 1 if n == 0 else n * function(n - 1)

    class Thing:
        @record_function("method")
        def method(self) -> Thing:
            return self

        @staticmethod
        @record_function("static")
        def static() -> int:
            return 7

        @record_function("above")
        @staticmethod
        def above() -> int:
            return 8

        @record_function("class")
        @classmethod
        def of_class(cls) -> type[Thing]:
            return cls

    @record_function("generator")
    def generator() -> Iterator[int]:
        got = yield 1
        assert got == "sent"
        try:
            yield 2
        except KeyError:
            yield 3

    with fastprof.profile() as p:
        assert function(3) == 6
        thing = Thing()
        assert thing.method() is thing
        assert Thing.static() == 7
        assert Thing.above() == thing.above() == 8
        assert thing.of_class() is Thing
        steps: Any = generator()
        assert next(steps) == 1
        assert steps.send("sent") == 2
        assert steps.throw(KeyError("x")) == 3
        assert list(steps) == []
    assert function.__name__ == "function" and function.__doc__ == "doc"
    assert (
        names(p)
        == ["function"] * 4 + ["method", "static"] + ["above"] * 2 + ["class"] + ["generator"] * 4
    )


def test_decorated_generator_is_closed() -> None:
    closed = []

    @record_function("g")
    def generator() -> Iterator[int]:
        try:
            yield 1
        finally:
            closed.append(True)

    steps: Any = generator()
    with fastprof.profile() as p:
        next(steps)
        steps.close()
    assert closed == [True] and names(p) == ["g", "g"]


def test_decorated_coroutines_overlap() -> None:
    @record_function("work")
    async def work(delay: float) -> float:
        await asyncio.sleep(delay)
        return delay

    @record_function("stream")
    async def stream() -> AsyncIterator[int]:
        for i in range(2):
            await asyncio.sleep(0)
            yield i

    async def main() -> list[Any]:
        both = await asyncio.gather(work(0.002), work(0.001))
        return [both, [i async for i in stream()]]

    with fastprof.profile() as p:
        assert asyncio.run(main()) == [[0.002, 0.001], [0, 1]]
    assert [e.name for e in p.events()] == ["work", "work", "stream", "stream", "stream"]
    assert all(event.is_async for event in p.events())
    assert p.event_table.unfinished == 0


def test_decorating_what_cannot_be_called() -> None:
    with pytest.raises(TypeError, match="can decorate a function"):
        record_function("x")(3)  # type: ignore[type-var]


def test_marks_counters_and_flows() -> None:
    with fastprof.profile() as p:
        with record_function("outer"):
            fastprof.mark("here")
            fastprof.counter("queue", 3)
            fastprof.counter("load", 0.5)
            fastprof.counter("big", 1 << 70)
            arrow = fastprof.flow(1 << 63, "arrow")
            arrow.begin()
            arrow.end()
    table = p.event_table
    kinds = [fastprof.EventKind(kind) for kind in table.column("kind")]
    kind = fastprof.EventKind
    assert kinds == [kind.RANGE, kind.MARK, *[kind.COUNTER] * 3, kind.FLOW_BEGIN, kind.FLOW_END]
    words = table.payload_words
    assert words is not None
    at = table.column("payload")
    assert words[at[2]] == 3
    assert words[at[3] : at[3] + 1].view("f8")[0] == 0.5
    assert words[at[4] : at[4] + 1].view("f8")[0] == float(1 << 70)
    assert words[at[5]] == 1 << 63
    assert [event.name for event in p.events()] == ["outer"]


def test_wrong_counters() -> None:
    make: Any = fastprof.counter
    with pytest.raises(TypeError, match="two arguments"):
        make("x")
    with fastprof.profile(), pytest.raises(TypeError):
        make("x", "text")


def test_thread_names() -> None:
    def named() -> None:
        with record_function("in named"):
            pass

    def renamed() -> None:
        fastprof.set_thread_name("by hand")
        with record_function("in renamed"):
            pass

    with fastprof.profile() as p:
        with record_function("in main"):
            pass
        for target, name in ((named, "the worker"), (renamed, "ignored")):
            run_threads(threading.Thread(target=target, name=name))
    assert [track.name for track in p.event_table.tracks] == ["MainThread", "the worker", "by hand"]


def test_objects_are_freed() -> None:
    before = sys.getrefcount(record_function)
    name = "a name that only this test has " + "x" * 300  # too long for the cache
    for _ in range(1000):
        with record_function(name, step=1):
            pass
    assert sys.getrefcount(name) < 10
    assert sys.getrefcount(record_function) - before < 10


def test_errors_thrown_into_a_decorated_async_generator_reach_it() -> None:
    @record_function("steps")
    async def steps() -> AsyncIterator[str]:
        try:
            yield "first"
        except KeyError as error:
            yield f"caught {error.args[0]}"
        try:
            yield "last"
        finally:
            fastprof.mark("closed")

    async def use() -> list[str]:
        running: Any = steps()
        got = [await running.__anext__(), await running.athrow(KeyError("x"))]
        got.append(await running.__anext__())
        await running.aclose()
        return got

    with fastprof.profile() as p:
        assert asyncio.run(use()) == ["first", "caught x", "last"]
    last = [e for e in p.events() if e.name == "steps"][3]  # the step that aclose() runs
    (mark,) = p.events().instants()
    assert last.time_range.start <= mark.time_us <= last.time_range.end


def test_short_threads_one_after_the_other_need_little_memory() -> None:
    def work(name: str) -> None:
        with fastprof.record_function(name):
            pass

    names = [f"range {i}" for i in range(300)]
    with fastprof.profile(max_bytes=1 << 20) as p:
        for name in names:
            run_threads(threading.Thread(target=work, args=(name,)))
    assert p.event_table.dropped == {}
    ranges = [event for event in p.events() if event.name in names]
    assert [event.name for event in ranges] == names
    assert len({event.thread for event in ranges}) == 300
