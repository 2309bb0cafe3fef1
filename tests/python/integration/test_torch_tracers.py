# SPDX-License-Identifier: Apache-2.0
"""fastprof.record_function and fastprof.profile in code that PyTorch compiles, scripts, traces or exports.

Each case is run with torch.profiler's class and with fastprof's; the graphs must be equal.
"""

from __future__ import annotations

import re
import threading

import pytest
from known_torch import RELEASE, torch

import fastprof

pytestmark = [
    pytest.mark.integrations,
    pytest.mark.filterwarnings("ignore:.*torch.jit.*:DeprecationWarning"),
]


# ---- what is compiled: `kit` is torch.profiler or fastprof --------------------------------------------------------


def context_manager(kit):
    def program(x):
        with kit.record_function("a"):
            y = x + 1
        return y * 2

    return program


def context_manager_with_target(kit):
    def program(x):
        with kit.record_function("a", "arguments"):
            y = x + 1
        with kit.record_function(name="b"):
            return y * 2

    return program


def decorated_callee(kit):
    @kit.record_function("a")
    def increment(x):
        return x + 1

    def program(x):
        return increment(x) * 2

    return program


def decorated_itself(kit):
    @kit.record_function("a")
    def program(x):
        return x * 2

    return program


def decorated_inside(kit):
    def program(x):
        @kit.record_function("a")
        def increment(x):
            return x + 1

        return increment(x)

    return program


def decorated_generator(kit):
    @kit.record_function("a")
    def numbers(x):
        yield x + 1
        yield x + 2

    def program(x):
        return sum(numbers(x))

    return program


def reused_object(kit):
    range_ = kit.record_function("a")

    def program(x):
        with range_:
            y = x + 1
        with range_:
            return y + 1

    return program


def decorated_module(kit):
    class Module(torch.nn.Module):
        @kit.record_function("forward")
        def forward(self, x):
            with kit.record_function("a"):
                return x + 1

    return Module()


def profile_inside(kit):
    def program(x):
        with kit.profile(record_shapes=True):
            y = x + 1
        return y * 2

    return program


def graph_break_inside(kit):
    def program(x):
        with kit.record_function("a"):
            y = x + 1
            torch._dynamo.graph_break()
            y = y + 1
        return y * 2

    return program


PROGRAMS = [
    context_manager, context_manager_with_target, decorated_callee, decorated_itself, decorated_inside,
    decorated_generator, reused_object, decorated_module, profile_inside,
]  # fmt: skip


def graphs_of(program, fullgraph):
    """Return the graphs that torch.compile passes to its backend, each as a list of nodes."""
    graphs = []

    def backend(module, inputs):
        graphs.append([(n.op, str(n.target), str(n.args)) for n in module.graph.nodes])
        return module.forward

    torch._dynamo.reset()
    result = torch.compile(program, backend=backend, fullgraph=fullgraph)(torch.ones(3))
    return graphs, result.tolist()


# ---- torch.compile, torch.export --------------------------------------------------------------------------------


@pytest.mark.parametrize("capture", [False, True], ids=["ignored", "captured"])
@pytest.mark.parametrize("make", PROGRAMS, ids=lambda make: make.__name__)
def test_a_compiled_function_is_one_graph_equal_to_that_with_torchs_class(make, capture):
    if capture and not hasattr(torch._dynamo.config, "capture_profiler_record_function"):
        pytest.skip("this torch cannot keep ranges in a graph")
    switch = {"capture_profiler_record_function": True} if capture else {}
    with torch._dynamo.config.patch(**switch):
        ours = graphs_of(make(fastprof), fullgraph=True)
        try:
            theirs = graphs_of(make(torch.profiler), fullgraph=True)
        except torch._dynamo.exc.Unsupported:
            theirs = ours  # an older torch, which does not compile its own class there
    assert ours == theirs
    assert len(ours[0]) == 1
    if make is not profile_inside:
        assert ("_record_function_enter_new" in str(ours)) == capture


def test_a_graph_break_inside_a_range_does_what_it_does_with_torchs_class():
    theirs = graphs_of(graph_break_inside(torch.profiler), fullgraph=False)
    ours = graphs_of(graph_break_inside(fastprof), fullgraph=False)
    assert ours == theirs


def test_compiled_code_is_not_compiled_again_and_the_eager_range_still_records():
    compiled = 0

    def backend(module, inputs):
        nonlocal compiled
        compiled += 1
        return module.forward

    torch._dynamo.reset()
    program = context_manager(fastprof)
    function = torch.compile(program, backend=backend, fullgraph=True)
    function(torch.ones(3))
    with fastprof.profile() as prof:
        function(torch.ones(3))
        program(torch.ones(3))
    function(torch.ones(3))
    assert compiled == 1
    assert [event.name for event in prof.events()].count("a") == 1  # from the eager call


def test_captured_ranges_are_in_a_profile_of_the_compiled_function():
    if not hasattr(torch._dynamo.config, "capture_profiler_record_function"):
        pytest.skip("this torch cannot keep ranges in a graph")
    torch._dynamo.reset()
    with torch._dynamo.config.patch(capture_profiler_record_function=True):
        function = torch.compile(context_manager(fastprof), backend="eager", fullgraph=True)
        function(torch.ones(3))
        with fastprof.profile() as prof:
            function(torch.ones(3))
    assert [event.name for event in prof.events()].count("a") == 1


@pytest.mark.parametrize("strict", [True, False], ids=["strict", "non_strict"])
def test_an_exported_program_is_equal_to_that_with_torchs_class(strict):
    def exported(kit):
        torch._dynamo.reset()
        program = torch.export.export(decorated_module(kit), (torch.ones(3),), strict=strict)
        return program.graph_module.code

    ours = exported(fastprof)
    assert "add" in ours
    try:
        assert ours == exported(torch.profiler)
    except torch._dynamo.exc.Unsupported:
        # An older torch, whose strict export does not support its own class as a decorator.
        assert strict and RELEASE < (2, 13)


# ---- TorchScript, torch.jit.trace, make_fx ----------------------------------------------------------------------


def _without_places(graph):
    return re.sub(r"___torch_mangle_\d+\.", "", re.sub(r" *# .*", "", str(graph)))


def _scripted(range_type):
    def program(x: torch.Tensor):
        with range_type("scripted"):
            return x + 1

    return torch.jit.script(program)


def test_a_scripted_range_is_torchs_and_is_shown_when_it_runs():
    ours = _scripted(fastprof.record_function)
    theirs = _scripted(torch.profiler.record_function)
    assert _without_places(ours.graph) == _without_places(theirs.graph)
    with fastprof.profile() as prof:
        ours(torch.ones(3))
    events = {event.name: event for event in prof.events()}
    assert events["aten::add"].cpu_parent.name == "scripted"


def test_a_subclass_is_not_taken_for_torchs_class_by_torchscript():
    class Mine(fastprof.record_function):
        pass

    with pytest.raises(Exception, match="Mine"):
        _scripted(Mine)


@pytest.mark.parametrize("make", [context_manager, decorated_callee, decorated_module])
def test_a_traced_range_is_in_the_graph(make):
    example = torch.ones(3)
    theirs = torch.jit.trace(make(torch.profiler), example)
    ours = torch.jit.trace(make(fastprof), example)
    assert _without_places(ours.graph) == _without_places(theirs.graph)
    assert "profiler::_record_function_enter_new" in str(ours.graph)
    with fastprof.profile() as prof:
        ours(example)
    assert [event.name for event in prof.events()].count("a") == 1


@pytest.mark.parametrize("make", [context_manager, decorated_itself, reused_object])
def test_make_fx_keeps_a_range(make):
    from torch.fx.experimental.proxy_tensor import make_fx

    theirs = make_fx(make(torch.profiler))(torch.ones(3)).code
    with fastprof.profile() as prof:
        ours = make_fx(make(fastprof))(torch.ones(3)).code
    assert ours == theirs
    if "_record_function_exit" not in theirs:
        pytest.skip("this torch's make_fx drops its own ranges")
    # Once each, although torch's range began, too.
    names = [event.name for event in prof.events()]
    assert names.count("a") == ours.count("_record_function_enter_new.default(")


def test_ranges_are_native_again_when_tracing_ends_even_with_an_exception():
    from torch.fx.experimental.proxy_tensor import make_fx

    enter, leave = fastprof.record_function.__enter__, fastprof.record_function.__exit__

    def fail(x):
        with fastprof.record_function("a"):
            assert fastprof.record_function.__enter__ is not enter
            raise KeyError("x")

    with pytest.raises(KeyError):
        make_fx(fail)(torch.ones(3))
    with pytest.raises(KeyError):
        torch.jit.trace(fail, torch.ones(3))
    assert fastprof.record_function.__enter__ is enter
    assert fastprof.record_function.__exit__ is leave


def test_ranges_of_other_threads_stay_out_of_a_trace():
    from torch.fx.experimental.proxy_tensor import make_fx

    def program(x):
        with fastprof.record_function("mine"):
            thread = threading.Thread(target=context_manager(fastprof), args=(torch.ones(3),))
            thread.start()
            thread.join()
            return x + 1

    begin = "_record_function_enter_new.default("
    kept = make_fx(context_manager(torch.profiler))(torch.ones(3)).code.count(begin)
    assert kept == 1 or RELEASE < (2, 11)  # older versions remove them at the end of the trace
    with fastprof.profile() as prof:
        code = make_fx(program)(torch.ones(3)).code
    assert code.count(begin) == kept
    names = [event.name for event in prof.events()]
    assert (names.count("mine"), names.count("a")) == (1, 1)
