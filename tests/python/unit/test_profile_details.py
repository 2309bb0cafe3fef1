# SPDX-License-Identifier: Apache-2.0
"""profile(): memory and Python stacks of its events, and results that outlive it."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import fastprof
from fastprof import record_function


def test_memory_is_attributed_and_reconciles() -> None:
    def elsewhere() -> None:
        with record_function("elsewhere"):
            fastprof.report_memory_usage(9, 1000)

    with fastprof.profile(profile_memory=True) as p:
        with record_function("outer"):
            fastprof.report_memory_usage(1, 100)
            with record_function("inner"):
                fastprof.report_memory_usage(2, 30)
                fastprof.report_memory_usage(2, -10)
                fastprof.report_memory_usage(3, 512, device_type="cuda", device_index=1)
                thread = threading.Thread(target=elsewhere)
                thread.start()
                thread.join()
        fastprof.report_memory_usage(4, 7)
        fastprof.report_out_of_memory(1 << 40)
    events = {event.name: event for event in p.events()}
    assert events["outer"].cpu_memory_usage == 120
    assert events["outer"].self_cpu_memory_usage == 100
    assert events["inner"].cpu_memory_usage == 20
    assert events["inner"].device_memory_usage == 512
    assert events["elsewhere"].cpu_memory_usage == 1000
    assert events["[memory]"].cpu_memory_usage == 7
    assert "[OutOfMemory]" in events
    assert sum(e.self_cpu_memory_usage for e in p.events()) == 100 + 30 - 10 + 1000 + 7
    assert "CPU Mem" in p.table()


def leaf() -> None:
    with record_function("leaf"):
        pass


def test_stacks_are_those_of_the_begin(tmp_path: Path) -> None:
    import traceback

    with fastprof.profile(with_stack=True, python_calls=False) as p:
        for _ in range(3):
            leaf()
        with record_function("here"):
            frames = traceback.extract_stack()
    leaves, here = p.events()[:3], p.events()[3]
    assert here.stack[0].startswith(f"{__file__}(") and here.stack[0].endswith(
        "test_stacks_are_those_of_the_begin"
    )
    expected = [f"{f.filename}({f.lineno}): {f.name}" for f in reversed(frames)]
    assert here.stack[1:] == expected[1 : len(here.stack)]  # the innermost is on another line
    assert int(here.stack[0].split("(")[1].split(")")[0]) == frames[-1].lineno - 1  # type: ignore[operator]
    for event in leaves:
        assert event.stack[0].endswith("): leaf")
        assert event.stack[1:] == leaves[0].stack[1:]
    table = p.key_averages(group_by_stack_n=2).table()
    assert "Source Location" in table and "leaf" in table
    p.export_stacks(tmp_path / "stacks.txt")
    lines = (tmp_path / "stacks.txt").read_text().splitlines()
    assert all(line.rsplit(" ", 1)[1].isdigit() for line in lines)


def test_deep_recursion_and_code_that_is_gone() -> None:
    with fastprof.profile(with_stack=True, python_calls=False) as p:
        for i in range(50):
            space: dict[str, Any] = {"record_function": record_function}
            code = f"def made_{i}(n):\n  if n: return made_{i}(n - 1)\n  with record_function('x'): pass\n"
            exec(compile(code, f"<made {i}>", "exec"), space)
            space[f"made_{i}"](200)
            del space
    stacks = [event.stack for event in p.events()]
    assert [stack[0] for stack in stacks] == [f"<made {i}>(3): made_{i}" for i in range(50)]
    assert {len(stack) for stack in stacks} == {128}
