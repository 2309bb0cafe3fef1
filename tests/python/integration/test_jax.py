# SPDX-License-Identifier: Apache-2.0
"""JAX programs under fastprof, without torch: ranges, stacks, and annotations forwarded in both directions."""

from __future__ import annotations

import gc
import gzip
import json
import os
import sys
import textwrap
import threading
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from processes import python

import fastprof
from fastprof import record_function

pytestmark = [
    pytest.mark.integrations,
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:.*os.fork:RuntimeWarning"),
]

_callbacks = gc.callbacks[:]
jax: Any = pytest.importorskip("jax", reason="jax is not installed")
gc.callbacks[:] = _callbacks  # jax adds one, which would be in the profiles of other tests

from fastprof.integrations.jax import forward_annotations  # noqa: E402


def double(x: float) -> Any:
    return jax.numpy.multiply(x, 2.0).block_until_ready()


def test_annotations_are_ranges() -> None:
    @jax.profiler.annotate_function
    def annotated() -> Any:
        return double(3.0)

    def on_another() -> None:
        with jax.profiler.TraceAnnotation("elsewhere"):
            pass

    with forward_annotations(), fastprof.profile(with_stack=True, python_calls=False) as p:
        with jax.profiler.TraceAnnotation("outer", batch=4, kind="train"):
            with record_function("inside"):
                annotated()
        for step in range(2):
            with jax.profiler.StepTraceAnnotation("step", step_num=step):
                double(1.0)
        thread = threading.Thread(target=on_another)
        thread.start()
        thread.join()
    events = {e.name: e for e in p.events()}
    name = annotated.__qualname__
    expected = {"outer": 1, "inside": 1, name: 1, "step": 2, "elsewhere": 1}
    found = Counter(e.name for e in p.events())
    assert {key: found[key] for key in expected} == expected
    assert len(found) > len(expected)  # JAX annotates itself
    assert events["outer"].kwinputs == {"batch": 4, "kind": "train"}
    assert events["step"].kwinputs == {"step_num": 1}
    assert events[name].cpu_parent.name == "inside"
    assert any("test_annotations_are_ranges" in frame for frame in events["outer"].stack)


def test_nothing_is_changed_outside_the_block() -> None:
    annotation = jax.profiler.TraceAnnotation
    before = dict(vars(annotation)), record_function.__enter__, record_function.__exit__
    made_before = annotation("made before")
    with forward_annotations(), forward_annotations(to_jax=False):
        with fastprof.profile() as p, made_before:
            left = annotation("left open")
            left.__enter__()
    left.__exit__(None, None, None)
    assert (dict(vars(annotation)), record_function.__enter__, record_function.__exit__) == before
    with fastprof.profile() as q, annotation("not forwarded"):
        pass
    assert [e.name for e in p.events()] == ["left open"] and len(q.events()) == 0


def test_an_exception_passes_and_ends_both() -> None:
    with forward_annotations(), fastprof.profile() as p:
        with pytest.raises(KeyError):
            with jax.profiler.TraceAnnotation("theirs"), record_function("mine"):
                raise KeyError
    assert [e.name for e in p.events()] == ["theirs", "mine"]
    assert p.event_table.unfinished == 0


def test_ranges_are_in_the_trace_of_jax(tmp_path: Path) -> None:
    reused = record_function("reused")

    @record_function("decorated")
    def decorated() -> None:
        with reused, reused:
            double(5.0)

    with jax.profiler.trace(str(tmp_path)), forward_annotations():
        decorated()
        schedule = fastprof.schedule(wait=0, warmup=1, active=1)
        with fastprof.profile(schedule=schedule) as p:
            p.step()
            double(2.0)
    (trace,) = tmp_path.rglob("*.trace.json.gz")
    with gzip.open(trace, "rt") as file:
        events = json.load(file)["traceEvents"]
    names = Counter(e.get("name", "") for e in events if e.get("ph") == "X")
    assert names["decorated"] == 1 and names["reused"] == 2
    steps = [e for e in events if str(e.get("name", "")).startswith("ProfilerStep")]
    assert len(steps) == 2


def test_without_torch() -> None:
    code = """
        import sys, jax
        import fastprof
        from fastprof.integrations.jax import forward_annotations
        with forward_annotations(), fastprof.profile() as p:
            with jax.profiler.TraceAnnotation("x"):
                jax.numpy.ones(3).sum().block_until_ready()
        print(p.events()[0].name, "torch" in sys.modules)
    """
    out = python(
        "-c", textwrap.dedent(code), check=True, PYTHONPATH=os.pathsep.join(sys.path)
    ).stdout
    assert out == "x False\n"
