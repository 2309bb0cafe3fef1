# SPDX-License-Identifier: Apache-2.0
"""PyTorch's ops as fastprof records them, compared with torch.profiler's profile of the same work."""

from __future__ import annotations

import threading
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from known_torch import CPU, CXX11_ABI, VERSION, torch
from processes import resident_kilobytes, run_python
from torch_pieces import mlp
from unfollowed import run_unfollowed
from waiting_threads import run_threads

import fastprof
from fastprof import _core
from fastprof.adapters.torch import ops as torch_ops
from fastprof.profiler import options as profile_options

pytestmark = pytest.mark.integrations


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """After a test, nothing observes ops any more."""
    torch.set_num_threads(1)
    yield
    assert not torch_ops._live
    assert torch_ops._watch is None


def add() -> None:
    x = torch.ones(4)
    torch.add(x, x)


def annotated() -> None:
    with torch.profiler.record_function("outer"):
        add()
        with torch.profiler.record_function("inner"):
            add()


def profiled(work: Callable[[], None], **arguments: Any) -> Any:
    with fastprof.profile(**arguments) as p:
        work()
    assert "torch_ops" not in p.missing
    return p


def ours(work: Callable[[], None], **arguments: Any) -> Any:
    return profiled(work, **arguments).event_table


def names_of(table: Any) -> list[str]:
    return [table.name(row) for row in range(len(table))]


def theirs(work: Callable[[], None]) -> Any:
    with torch.profiler.profile(activities=CPU) as p:
        work()
    return p.events()


def keys(events: Any) -> Counter[tuple[str, int, str | None]]:
    """Return the keys of both packages' lists, which leave out an only child with its parent's name."""
    return Counter(
        (e.name, e.scope, None if e.cpu_parent is None else e.cpu_parent.name) for e in events
    )


def test_backward_from_another_thread_links_to_the_forward_thread() -> None:
    x = torch.ones(3, requires_grad=True)
    with fastprof.profile() as p:
        y = (x * 2).sum()
        run_threads(threading.Thread(target=y.backward))
    table = p.event_table
    names = names_of(table)
    multiply, backward = names.index("aten::mul"), names.index("MulBackward0")
    assert table.thread[multiply] != table.thread[backward]
    assert table.column("fwd_thread")[backward] == table.thread[multiply]
    assert table.column("sequence_nr")[backward] == table.column("sequence_nr")[multiply]


def test_all_threads_or_only_the_starting_one() -> None:
    def on_another() -> None:
        run_unfollowed(lambda: torch.ones(2))
        torch.zeros(2)

    everywhere = names_of(ours(on_another))
    here = names_of(ours(on_another, all_threads=False))
    assert {"aten::ones", "aten::zeros"} <= set(everywhere)
    assert "aten::ones" not in here and "aten::zeros" in here


def test_user_ranges_of_torch_are_annotations() -> None:
    table = ours(annotated)
    row = names_of(table).index("inner")
    assert table.sites[int(table.column("site")[row])].category == "user_annotation"
    assert table.column("is_user_annotation")[row]


def test_an_op_that_throws_ends() -> None:
    def work() -> None:
        with pytest.raises(RuntimeError, match="size"):
            torch.ones(2) + torch.ones(3)
        torch.zeros(1)

    table = ours(work)
    names, parent = names_of(table), table.column("parent")
    assert parent[names.index("aten::zeros")] == -1
    assert table.unfinished == 0
    assert "aten::add" in names


def test_beside_a_running_torch_profiler() -> None:
    with torch.profiler.profile() as outer:
        inside = keys(profiled(mlp).events())
    with fastprof.profile() as p:
        events = theirs(mlp)
    assert inside == keys(events)
    assert Counter(e.name for e in outer.events()) >= Counter(e.name for e in events)
    assert keys(p.events()) >= inside


def test_nested_profiles_each_see_their_own() -> None:
    with fastprof.profile() as outer:
        add()
        with fastprof.profile() as inner:
            add()
        add()
    assert names_of(inner.event_table).count("aten::add") == 1
    assert names_of(outer.event_table).count("aten::add") == 3


def test_an_op_that_ends_after_stop_and_on_another_thread() -> None:
    begin = torch.ops.profiler._record_function_enter_new
    end = torch.ops.profiler._record_function_exit._RecordFunction
    p = fastprof.profile()
    p.start()
    late = begin("late", None)
    crossing = begin("crossing", None)
    run_threads(threading.Thread(target=end, args=(crossing,)))
    p.stop()
    end(late)
    table = p.event_table
    names = names_of(table)
    assert table.unfinished == 1
    assert names.count("late") == names.count("crossing") == 1
    assert table.column("end_track")[names.index("crossing")] >= 0


def test_collectives_are_async(tmp_path: Any) -> None:
    dist = torch.distributed
    if not (dist.is_available() and dist.is_gloo_available()):
        pytest.skip("this torch has no gloo")
    try:
        dist.init_process_group(
            "gloo", init_method=f"file://{tmp_path}/store", rank=0, world_size=1
        )
    except RuntimeError as failure:
        pytest.skip(f"gloo cannot be used here: {failure}")
    x = torch.ones(3, requires_grad=True)

    def work() -> None:
        dist.all_reduce(torch.ones(4), async_op=True).wait()
        y = x.exp().sum()
        run_threads(threading.Thread(target=y.backward))

    try:
        p = profiled(work)
    finally:
        dist.destroy_process_group()
    (collective,) = [e for e in p.events() if e.name == "gloo:all_reduce"]
    assert collective.is_async
    assert p.event_table.unfinished == 0
    assert sum(e.is_async for e in p.events()) == 1
    # This thread makes its range, and a thread of gloo begins it: both threads keep their own ranges.
    table = p.event_table
    names = names_of(table)
    forward, backward = names.index("aten::exp"), names.index("ExpBackward0")
    assert table.column("fwd_thread")[backward] == table.thread[forward]


def test_nothing_is_left_after_stop() -> None:
    ours(add)
    session = _core.Session()
    session.start()
    add()
    assert len(session.stop({})) == 0


def test_threads_that_come_and_go_take_no_memory() -> None:
    def threads(count: int) -> None:
        for _ in range(count):
            run_threads(threading.Thread(target=add))

    with fastprof.profile(max_bytes=1 << 20, overflow="overwrite_oldest"):
        threads(100)
        before = resident_kilobytes()
        threads(400)
        assert resident_kilobytes() - before < 4096


def test_a_wrong_layout_is_refused() -> None:
    assert _core.torch_self_test(VERSION, CXX11_ABI) == ""
    for shift in (-200, -8, -1, 1, 8, 100, 7000, 100_000):
        assert _core.torch_self_test(VERSION, CXX11_ABI, shift) != ""


def test_a_profile_with_an_unknown_torch_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    code = """
        import sys, types, warnings
        torch = types.ModuleType("torch")
        torch.__version__ = "99.1.0"
        sys.modules["torch"] = torch
        import fastprof
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            for _ in range(2):
                with fastprof.profile() as p:
                    with fastprof.record_function("mine"):
                        pass
        print(len(told), told[0].message, told[0].filename)
        print(p.missing["torch_ops"])
        print([e.name for e in p.events()])
    """
    told, missing, names = run_python(code).splitlines()
    assert told.startswith("1 profile: torch ops are not recorded: ") and told.endswith(" <string>")
    assert "99.1.0" in missing
    assert names == "['mine']"


def test_a_forked_child_observes_nothing_of_its_parents_profile() -> None:
    code = """
        import os, torch, fastprof
        from fastprof import _core
        with fastprof.profile() as p:
            torch.zeros(3)
            child = os.fork()
            if child == 0:
                session = _core.Session()
                session.start()
                torch.ones(3)
                seen = len(session.stop({}))
                with fastprof.profile() as q:
                    torch.ones(3)
                names = [e.name for e in q.events()]
                os._exit(0 if seen == 0 and "aten::ones" in names else 7)
            status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
            torch.ones(3)
        names = [e.name for e in p.events()]
        print(status, names.count("aten::zeros"), names.count("aten::ones"))
    """
    with warnings.catch_warnings():
        assert run_python(code) == "0 1 1\n"


def test_a_forked_child_knows_the_forward_threads_of_its_own() -> None:
    code = """
        import os, torch, fastprof
        torch.set_num_threads(1)

        def profiled():
            with fastprof.profile() as p:
                (torch.ones(3, requires_grad=True) * 2).sum().backward()
            events = {e.name: e for e in p.events()}
            return events["aten::mul"].thread, events["MulBackward0"].fwd_thread

        forward, told = profiled()
        assert told == forward, (told, forward)
        child = os.fork()
        if child == 0:
            forward_here, told = profiled()
            os._exit(0 if told == forward_here != forward else 7)
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), profiled() == (forward, forward))
    """
    with warnings.catch_warnings():
        assert run_python(code) == "0 True\n"


def test_ops_carry_all_that_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(profile_options, "_warned", set())
    p = profiled(
        mlp,
        record_shapes=True,
        with_stack=True,
        python_calls=False,
        with_flops=True,
        profile_memory=True,
    )
    assert p.missing.keys() == (set() if CXX11_ABI else {"record_shapes"})
