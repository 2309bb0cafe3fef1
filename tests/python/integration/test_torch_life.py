# SPDX-License-Identifier: Apache-2.0
"""Profiles of torch programs: begun before torch is imported, interrupted, or queried by torch."""

from __future__ import annotations

import textwrap
import threading
from pathlib import Path

import pytest
from interrupts import run_interrupted
from known_torch import CXX11_ABI, RELEASE, needs_inputs, torch
from processes import python, run_python

import fastprof
from fastprof.adapters.torch import memory as torch_memory
from fastprof.adapters.torch import ops as torch_ops

pytestmark = pytest.mark.integrations

_EVERY_OPTION = (
    "--record-shapes --with-flops --profile-memory --with-stack --max-records-mb 8 --overflow"
    " overwrite_oldest"
)


@pytest.mark.parametrize(
    ("options", "thread"),
    [("--record-shapes --no-table", False), (_EVERY_OPTION, False), (_EVERY_OPTION, True)],
    ids=["shapes", "every option", "on another thread"],
)
def test_every_option_of_run_on_a_script_that_imports_torch(
    options: str, thread: bool, tmp_path: Path
) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        textwrap.dedent("""
        import sys, threading
        def work():
            import torch
            torch.mm(torch.ones(3, 3), torch.ones(3, 3))
        if "thread" in sys.argv:
            thread = threading.Thread(target=work)
            thread.start()
            thread.join()
        else:
            work()
        """)
    )
    trace = tmp_path / "trace.json"
    words = (*options.split(), script, *["thread"] * thread)
    done = python("-m", "fastprof", "run", "-o", trace, *words, check=True)
    assert "not recorded" not in done.stderr
    names = [site.name for site in fastprof.load(trace).sites]
    assert "aten::mm" in names and "aten::ones" in names


@needs_inputs
def test_import_inside_a_profile_with_everything() -> None:
    code = """
        import fastprof
        with fastprof.profile(record_shapes=True, with_flops=True, profile_memory=True, with_stack=True,
                              with_modules=True, all_threads=False) as p:
            from torch import nn
            nn.Linear(3, 4)(nn.Parameter(__import__("torch").ones(2, 3)))
        linear = next(e for e in p.events() if e.name == "aten::linear")
        print(p.missing, linear.input_shapes[:2], 32 in [e.cpu_memory_usage for e in p.events()])
    """
    assert run_python(code) == "{} [[2, 3], [4, 3]] True\n"


def test_interrupts_leave_nothing_on_in_torch() -> None:
    """Interrupt start() and stop() at every third possible place."""
    options = {"record_shapes": CXX11_ABI, "profile_memory": True, "with_modules": CXX11_ABI}
    starter = torch.autograd.profiler._enable_profiler
    asked = torch.autograd._profiler_enabled

    def nothing_is_on() -> bool:
        return (
            not torch_ops._live
            and not torch_memory._live
            and torch.autograd.profiler._enable_profiler is starter
            and torch.autograd._profiler_enabled is asked
            and not torch.autograd.profiler._is_profiler_enabled
        )

    def another_thread_gets_the_lock() -> bool:
        taken = []

        def take() -> None:
            taken.append(torch_ops._lock.acquire(blocking=False))
            if taken[0]:
                torch_ops._lock.release()

        thread = threading.Thread(target=take)
        thread.start()
        thread.join()
        return taken[0]

    with fastprof.profile(**options):
        pass  # the self-tests
    for action in ("start", "stop"):
        at, interrupted = 0, True
        while interrupted:
            p = fastprof.profile(**options, all_threads=bool(at % 2))
            if action == "stop":
                p.start()
                torch.ones(3)
            interrupted = run_interrupted(getattr(p, action), at)
            if action == "start" and interrupted and not p._running:
                assert nothing_is_on(), at
            p.stop()
            assert nothing_is_on(), at
            if action == "stop":
                assert next(e.name for e in p.events()) == "aten::ones"
            at += 3
            assert another_thread_gets_the_lock(), at
    with fastprof.profile() as outer:
        torch.zeros(2)
    assert [e.name for e in outer.events()].count("aten::zeros") == 1


def test_torch_says_that_a_profiler_runs() -> None:
    autograd = torch.autograd
    native = autograd._profiler_enabled
    assert not autograd._profiler_enabled()
    with fastprof.profile():
        assert autograd._profiler_enabled() and autograd.profiler._is_profiler_enabled
        with fastprof.profile():
            pass
        assert autograd._profiler_enabled()
        assert (
            not torch._C._autograd._profiler_enabled()
        )  # the flag that torch's own profiler checks
        with torch.profiler.profile() as theirs:
            torch.ones(3)
        assert autograd._profiler_enabled() and "aten::ones" in [e.name for e in theirs.events()]
    assert autograd._profiler_enabled is native and not autograd._profiler_enabled()
    with torch.profiler.profile():
        with fastprof.profile():
            pass
        assert autograd._profiler_enabled() and autograd.profiler._is_profiler_enabled
    assert not autograd._profiler_enabled()


def test_datapipes_annotate() -> None:
    pipes = pytest.importorskip("torch.utils.data.datapipes.iter")
    with fastprof.profile() as p:
        list(pipes.IterableWrapper([1, 2, 3]))
    with torch.profiler.profile() as theirs:
        list(pipes.IterableWrapper([1, 2, 3]))
    expected = [e.name for e in theirs.events() if "Wrapper" in e.name]
    assert [e.name for e in p.events() if "Wrapper" in e.name] == expected and len(expected) == 4


def test_dynamo_first_used_in_a_profile_knows_torchs_function_afterwards() -> None:
    code = f"""
        import warnings, torch, fastprof
        if {RELEASE} < (2, 10):  # there Dynamo warns of torch's own function, which it cannot trace
            warnings.filterwarnings("ignore", "Dynamo does not know|Graph break due to")
        def f(x):
            return x + 1 if torch.autograd._profiler_enabled() else x - 1
        with fastprof.profile():
            assert torch.compile(f, backend="eager")(torch.ones(1)).item() == 2
        from torch._dynamo import trace_rules
        table = trace_rules.get_torch_obj_rule_map()
        assert torch.autograd._profiler_enabled in table
        assert not any(getattr(f, "__module__", "") == "fastprof.adapters.torch.flags" for f in table)
        assert torch.compile(f, backend="eager")(torch.ones(1)).item() == 0
        print(torch.export.export(torch.nn.Linear(1, 1), (torch.ones(1),)) is not None)
    """
    assert run_python(code) == "True\n"
