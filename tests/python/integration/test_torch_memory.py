# SPDX-License-Identifier: Apache-2.0
"""torch's allocations in a profile, compared with those in torch.profiler's profile of the same work."""

from __future__ import annotations

import ctypes
import gc
import queue
import threading
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch_parity
from known_torch import CPU, RELEASE, VERSION, torch
from processes import anonymous_kilobytes, python, run_python
from torch_pieces import train_perceptron
from unfollowed import run_unfollowed

import fastprof
from fastprof import EventList, _core
from fastprof.adapters.torch import memory as torch_memory
from fastprof.adapters.torch import proof as torch_proof
from fastprof.profiler import options as profile_options

pytestmark = pytest.mark.integrations


def c10(symbol: str, result: Any, *arguments: Any) -> Any:
    """Return a function of libtorch that allocators call."""
    function = ctypes.CDLL(str(Path(torch.__file__).parent / "lib" / "libc10.so"))[symbol]
    function.restype, function.argtypes = result, arguments
    return function


memory_is_wanted = c10("_ZN3c1022memoryProfilingEnabledEv", ctypes.c_bool)
report_usage = c10(
    "_ZN3c1027reportMemoryUsageToProfilerEPvlmmNS_6DeviceE", None,
    ctypes.c_void_p, ctypes.c_int64, ctypes.c_size_t, ctypes.c_size_t, ctypes.c_uint16,
)  # fmt: skip
report_out_of_memory = c10(
    "_ZN3c1027reportOutOfMemoryToProfilerElmmNS_6DeviceE", None,
    ctypes.c_int64, ctypes.c_size_t, ctypes.c_size_t, ctypes.c_uint16,
)  # fmt: skip


@pytest.fixture(autouse=True)
def nothing_stays(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    torch.set_num_threads(1)
    monkeypatch.setattr(profile_options, "_warned", set())
    starter = torch.autograd.profiler._enable_profiler
    yield
    assert not torch_memory._live
    assert torch.autograd.profiler._enable_profiler is starter
    assert not memory_is_wanted()
    assert not torch._C._autograd._profiler_enabled()


def mlp() -> None:
    train_perceptron(torch.optim.AdamW)


def ours(work: Callable[[], None], **arguments: Any) -> Any:
    with fastprof.profile(profile_memory=True, **arguments) as p:
        work()
    assert "profile_memory" not in p.missing
    return p


def theirs(work: Callable[[], None]) -> Any:
    with torch.profiler.profile(activities=CPU, profile_memory=True) as p:
        work()
    return p


def counted(profile: Any) -> Any:
    """Return the profile's events, with exact memory.

    Before 2.11 torch.profiler rounds times and so attributes some allocations to no op or to another one. Its events
    then get the exact sums of its own raw events, and memory outside of ops is left out of both lists.
    """
    if RELEASE >= (2, 11):
        return profile.events()
    if isinstance(profile, torch.profiler.profile):
        events = torch.autograd.profiler_util.EventList(
            torch_parity.exact_memory(profile), profile_memory=True
        )
        events._tree_built = True
        return events
    return fastprof.EventList(
        [e for e in profile.events() if e.name != "[memory]"], profile_memory=True
    )


def usage(profile: Any) -> Counter[tuple[Any, ...]]:
    return Counter(
        (e.name, e.cpu_memory_usage, e.self_cpu_memory_usage, e.device_memory_usage)
        for e in counted(profile)
    )


def memory_rows(profile: Any) -> list[tuple[int, int]]:
    """Return (bytes, total allocated) of each allocation and free."""
    table = profile.event_table
    kind = table.column("payload")
    rows = [r for r in range(len(table)) if table.name(r) == "[memory]"]
    words = table.payload_words
    return [(int(words[at + 1].astype("int64")), int(words[at + 2])) for at in map(int, kind[rows])]


def test_innermost_loses_and_doubles_nothing() -> None:
    mlp()
    p = ours(mlp)
    recorded = sum(size for size, _ in memory_rows(fresh(p)))
    assert sum(e.self_cpu_memory_usage for e in p.events()) == recorded


def fresh(profile: Any) -> Any:
    """Return the same capture without attribution, which makes rows of reports outside of ops."""

    class Plain:
        @property
        def event_table(self) -> Any:
            from fastprof.decode.consolidate import table_of

            return table_of(profile._results[-1].capture)

    return Plain()


def test_other_devices_and_out_of_memory() -> None:
    cuda_1 = 1 | 1 << 8

    def work() -> None:
        with torch.profiler.record_function("allocator"):
            report_usage(0x1000, 512, 2048, 4096, cuda_1)
            report_out_of_memory(1 << 40, 2048, 4096, cuda_1)

    def facts(profile: Any) -> list[tuple[str, int, int]]:
        return sorted(
            (e.name, e.cpu_memory_usage, e.device_memory_usage)
            for e in profile.events()
            if e.name in ("allocator", "[OutOfMemory]", "[memory]")
        )

    mine = ours(work)
    assert facts(mine) == facts(theirs(work))
    assert ("allocator", 0, 512) in facts(mine)
    assert "[OutOfMemory]" in {e.name for e in mine.events()}


def test_every_python_thread_or_only_the_starting_one() -> None:
    def on_another() -> None:
        run_unfollowed(lambda: torch.ones(1000))
        torch.zeros(10)

    def sizes(**arguments: Any) -> list[int]:
        return sorted(size for size, _ in memory_rows(fresh(ours(on_another, **arguments))))

    assert sizes() == [-4000, -40, 40, 4000]
    assert sizes(all_threads=False) == [-40, 40]


def test_backward_of_another_thread() -> None:
    x = torch.ones(250, requires_grad=True)

    def work() -> None:
        y = (x * 2).sum()
        thread = threading.Thread(target=y.backward)
        thread.start()
        thread.join()

    p = ours(work)
    (backward,) = [e for e in p.events() if e.name == "MulBackward0"]
    assert backward.cpu_memory_usage == 1000


class Worker:
    """A thread that runs functions given to it, until it is closed."""

    def __init__(self) -> None:
        self._asked: queue.Queue[Any] = queue.Queue()
        self._done: queue.Queue[Any] = queue.Queue()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        while (work := self._asked.get()) is not None:
            try:
                self._done.put((work(), None))
            except Exception as failure:
                self._done.put((None, failure))

    def __call__(self, work: Callable[[], Any]) -> Any:
        self._asked.put(work)
        result, failure = self._done.get(timeout=60)
        if failure is not None:
            raise failure
        return result

    def __enter__(self) -> Worker:
        return self

    def __exit__(self, *error: object) -> None:
        self._asked.put(None)
        self._thread.join()


def test_nothing_is_left_on_a_thread_that_stays() -> None:
    with Worker() as worker:
        ours(lambda: worker(mlp))
        assert not worker(memory_is_wanted)
        # The slot is free: torch.profiler, which does not share it, can start there.
        assert worker(lambda: len(theirs(mlp).events())) > 0
        again = ours(lambda: worker(lambda: torch.ones(1000)))
        assert 4000 in [size for size, _ in memory_rows(fresh(again))]


def test_torch_profiler_started_first_keeps_the_memory() -> None:
    mlp()
    expected = usage(theirs(mlp))
    with torch.profiler.profile(activities=CPU, profile_memory=True) as other:
        p = fastprof.profile(profile_memory=True)
        with pytest.warns(UserWarning, match=r"already runs .* fastprof records none"):
            p.start()
        mlp()
        p.stop()
    assert "profile_memory" in p.missing
    assert not any(e.cpu_memory_usage for e in p.events())
    assert len(p.events()) > 50
    assert usage(other) == expected


def test_torch_profiler_started_second_gets_the_memory() -> None:
    mlp()
    expected = usage(theirs(mlp))
    with fastprof.profile(profile_memory=True) as p:
        torch.ones(1000)
        other = torch.profiler.profile(activities=CPU, profile_memory=True)
        with pytest.warns(
            UserWarning, match=r"torch\.profiler was started .* fastprof does not record"
        ):
            other.start()
        mlp()
        torch.ones(3000)
        other.stop()
        torch.ones(2000)
    assert usage(other) >= Counter({k: n for k, n in expected.items() if k[0] != "[memory]"})
    sizes = [size for size, _ in memory_rows(fresh(p))]
    assert 4000 in sizes and 8000 in sizes and 12000 not in sizes
    assert "torch.profiler" in p.missing["profile_memory"]


def test_torch_profiler_that_outlives_the_profile() -> None:
    p = fastprof.profile(profile_memory=True)
    other = torch.profiler.profile(activities=CPU, profile_memory=True)
    p.start()
    with pytest.warns(UserWarning, match="started on a thread"):
        other.start()
    p.stop()
    torch.ones(1000)
    other.stop()
    assert any(e.cpu_memory_usage == 4000 for e in other.events())


def test_profile_that_outlives_torch_profiler() -> None:
    other = torch.profiler.profile(activities=CPU)
    p = fastprof.profile(profile_memory=True)
    other.start()
    with pytest.warns(UserWarning, match="already runs"):
        p.start()
    other.stop()
    torch.ones(1000)
    p.stop()
    assert 4000 in [size for size, _ in memory_rows(fresh(p))]


def test_torchs_own_functions_find_no_profiler_where_our_reporter_lies() -> None:
    with fastprof.profile(profile_memory=True):
        assert memory_is_wanted()
        assert not torch._C._autograd._profiler_enabled()
        assert torch._C._autograd._profiler_type().name == "NONE"
        with pytest.raises(RuntimeError):
            torch._C._autograd._disable_profiler()
        with torch._C._profiler._RecordFunctionFast("fast", [torch.ones(2)]):
            pass
        torch.ones(2)
    assert not memory_is_wanted()


def test_an_op_that_throws() -> None:
    def work() -> None:
        with pytest.raises(RuntimeError, match="size"):
            torch.ones(2) + torch.ones(3)
        torch.ones(1000)

    p = ours(work)
    assert sorted(size for size, _ in memory_rows(fresh(p))) == [-4000, -12, -8, 8, 12, 4000]


def test_many_profiles_take_no_memory() -> None:
    growth = []
    with Worker() as worker:

        def profiles(count: int) -> None:
            for _ in range(count):
                with fastprof.profile(profile_memory=True, with_stack=True, record_shapes=True):
                    torch.ones(4).add(1)
                    worker(lambda: torch.ones(4))

        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for _ in range(3):
                before = anonymous_kilobytes()
                profiles(250)
                gc.collect()
                growth.append(anonymous_kilobytes() - before)
    assert min(growth[1:]) < 512, growth  # what leaks does so in each round


def test_the_self_test_is_in_no_profile(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text("import torch\nheld = torch.ones(1000) + 1\n")
    command = ["-m", "fastprof", "run", "--memory", "--calls", "-o", "it.fastprof", "script.py"]
    python(*command, cwd=tmp_path, check=True)
    events = EventList.from_table(fastprof.load(tmp_path / "it.fastprof"))
    assert {"torch/__init__.py" in event.name for event in events} == {False, True}
    assert {event.thread for event in events} == {1}


def test_a_forged_layout_is_refused() -> None:
    layout = _core.torch_known_memory_layout(VERSION)
    assert layout is not None
    assert _core.torch_memory_self_test(0, layout) == ""
    assert _core.torch_memory_self_test(1, layout) != ""
    assert _core.torch_memory_self_test(2, layout) != ""


def test_a_torch_whose_memory_is_not_known_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(
        torch_proof._reasons, (torch.__version__, "memory"), "its reports are of another kind"
    )
    with (
        pytest.warns(UserWarning, match="allocations are not recorded: its reports are of another"),
        fastprof.profile(profile_memory=True) as p,
    ):
        mlp()
    assert "another kind" in p.missing["profile_memory"]
    assert len(p.events()) > 50


def test_a_forked_child_reports_nothing_of_its_parents_profile() -> None:
    code = """
        import os, torch, fastprof
        from fastprof import _core
        with fastprof.profile(profile_memory=True) as p:
            torch.zeros(1000)
            child = os.fork()
            if child == 0:
                session = _core.Session()
                session.start()
                torch.ones(1000)
                seen = len(session.stop({}))
                with fastprof.profile(profile_memory=True) as q:
                    torch.ones(500)
                sizes = [e.cpu_memory_usage for e in q.events()]
                os._exit(0 if seen == 0 and 2000 in sizes else 7)
            status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
            torch.ones(2000)
        sizes = [e.cpu_memory_usage for e in p.events()]
        print(status, 4000 in sizes, 8000 in sizes)
    """
    assert run_python(code) == "0 True True\n"
