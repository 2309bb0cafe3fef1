# SPDX-License-Identifier: Apache-2.0
"""Names of PyTorch's ops: distinguished by their text, wherever libtorch stores it, also at a reused address."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from known_torch import CPU, CXX11_ABI, VERSION, torch
from processes import run_python

import fastprof

HERE = str(Path(__file__).resolve().parent)
pytestmark = pytest.mark.integrations


def names() -> Iterator[str]:
    """Return a name of each length up to 70, and names that differ from it in one character."""
    for length in range(1, 71):
        same = ("aten::" + "x" * length)[:length]
        yield same
        for at in range(length):
            yield same[:at] + "Y" + same[at + 1 :]


def ranges() -> None:
    # One after the other, so that each text is stored where the one before was.
    for _ in range(2):
        for name in names():
            with torch.profiler.record_function(name):
                pass


def seen() -> Counter[str]:
    with fastprof.profile() as p:
        ranges()
    table = p.event_table
    return Counter(table.sites[site].name for site in table.column("site").tolist())


def test_names_that_differ_in_one_place_keep_apart() -> None:
    assert seen() == Counter(dict.fromkeys(names(), 2))


def seen_in_a_process_of_its_own(first: str = "", **environment: str) -> str:
    code = f"""
        {first}
        import sys
        import torch
        sys.path.insert(0, {HERE!r})
        import test_torch_names as names
        assert names.seen() == names.Counter({{name: 2 for name in names.names()}})
        import fastprof
        with fastprof.profile(record_shapes={CXX11_ABI}) as p:
            x = torch.ones(3, requires_grad=True)
            torch.add(x, 1).sum().backward()
        events = {{e.name: e for e in p.events()}}
        print(events["aten::add"].input_shapes or [], events["aten::add"].sequence_nr, "AddBackward0" in events)
    """
    return run_python(code, **environment).strip()


# Inputs are not read with the older string ABI.
SEEN = f"{'[[3], [], []]' if CXX11_ABI else '[]'} 0 True"


@pytest.mark.skipif(not CXX11_ABI, reason="the layout of this torch never says where names are")
def test_where_a_layout_does_not_say_where_names_are_libtorch_is_asked() -> None:
    first = f"""
        import torch
        from fastprof import _core
        known = list(_core.torch_known_layout({VERSION!r}, True))
        assert known.pop() != 0
        wrong = _core.torch_prepare({VERSION!r}, True, [*known, 0])
        assert not wrong, wrong
    """
    assert seen_in_a_process_of_its_own(first) == SEEN


def test_without_static_thread_local_storage() -> None:
    assert seen_in_a_process_of_its_own(FASTPROF_TLS="dynamic") == SEEN


def test_a_name_ends_at_its_first_zero_as_in_pytorch() -> None:
    def work() -> None:
        for _ in range(2):
            with torch.profiler.record_function("before\0behind"):
                pass
        with torch.profiler.record_function("before"):
            pass

    with torch.profiler.profile(activities=CPU) as theirs:
        work()
    with fastprof.profile() as ours:
        work()
    expected = [event.name for event in theirs.events()]
    assert [event.name for event in ours.events()] == expected
