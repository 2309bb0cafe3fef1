# SPDX-License-Identifier: Apache-2.0
"""Ranges in the files of PyTorch's ExecutionTraceObserver; tracers work in any order of imports."""

from __future__ import annotations

import gzip
import json
import re
import subprocess
import sys
import textwrap
import threading

import pytest

torch = pytest.importorskip("torch", reason="needs torch")

import fastprof  # noqa: E402

pytestmark = pytest.mark.integrations


def one_range(kit):
    """Return a function with a range of `kit`: torch.profiler or fastprof."""

    def program(x):
        with kit.record_function("a"):
            y = x + 1
        return y * 2

    return program


# ---- ExecutionTraceObserver -------------------------------------------------------------------------------------


def _names_in(path):
    return [node["name"] for node in json.loads(path.read_text())["nodes"]]


def _observer(path):
    return torch.profiler.ExecutionTraceObserver().register_callback(str(path))


def test_a_given_observer_has_a_complete_file_with_our_ranges_like_torchs(tmp_path):
    names = {}
    for kit in (torch.profiler, fastprof):
        path = tmp_path / f"{kit.__name__}.json"
        with fastprof.profile(execution_trace_observer=_observer(path), record_shapes=True) as prof:
            one_range(kit)(torch.ones(3))
        names[kit] = _names_in(path)  # complete: the profile called cleanup()
        assert [event.name for event in prof.events()].count("a") == 1
    assert names[fastprof] == names[torch.profiler]
    assert "a" in names[fastprof]


def test_a_schedule_keeps_the_observer_until_the_with_block_ends(tmp_path):
    path = tmp_path / "trace.json"
    with fastprof.profile(
        execution_trace_observer=_observer(path),
        schedule=fastprof.schedule(wait=0, warmup=1, active=1, repeat=2),
    ) as prof:
        for step in range(4):
            with fastprof.record_function(f"range {step}"):
                torch.ones(3)
            prof.step()
    names = _names_in(path)
    assert [name for name in names if name.startswith("range")] == ["range 1", "range 3"]


def test_the_file_is_completed_when_the_block_raises(tmp_path):
    path = tmp_path / "trace.json"
    with (
        pytest.raises(KeyError),
        fastprof.profile(execution_trace_observer=_observer(path)),
        fastprof.record_function("outer"),
    ):
        raise KeyError("x")
    assert "outer" in _names_in(path)


def test_an_observer_started_by_hand_has_ranges_of_all_threads_and_may_stop_inside_one(tmp_path):
    enter = fastprof.record_function.__enter__
    observer = _observer(tmp_path / "trace.json")
    observer.start()
    thread = threading.Thread(target=one_range(fastprof), args=(torch.ones(3),))
    thread.start()
    thread.join()
    with fastprof.record_function("open at its end"):
        observer.stop()
    assert fastprof.record_function.__enter__ is enter
    observer.cleanup()
    assert "a" in _names_in(tmp_path / "trace.json")


def _shape(node):
    """Return a node without what differs between two runs of one work: addresses, numbers of storages, threads."""
    kept = {key: node[key] for key in ("name", "inputs", "outputs") if key in node}
    kept["attrs"] = [
        a for a in node.get("attrs", []) if a["name"] not in ("rf_id", "tid", "fw_tid", "seq_id")
    ]
    text = json.dumps(kept)
    return re.sub(r"\[\d+, \d+, \d+, \d+, \d+, \"[a-z0-9:]+\"\]", "[tensor]", text)


def test_our_observer_writes_what_torchs_writes_node_by_node(tmp_path):
    model = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.ReLU())

    def work():
        with torch.profiler.record_function("forward"):
            loss = model(torch.ones(2, 4)).sum()
        loss.backward()

    work()
    traces = []
    for kit in (torch.profiler, fastprof):
        path = tmp_path / f"{kit.__name__}.json"
        observer = kit.ExecutionTraceObserver().register_callback(str(path))
        assert observer.is_registered
        assert not observer.is_running()
        observer.start()
        assert observer.is_running()
        work()
        observer.stop()
        observer.unregister_callback()
        assert not observer.is_registered
        assert observer.get_output_file_path() == str(path)
        traces.append(json.loads(path.read_text()))
    theirs, ours = traces
    assert ours["schema"] == theirs["schema"]
    assert [_shape(n) for n in ours["nodes"]] == [_shape(n) for n in theirs["nodes"]]
    # Dependencies, by the place of the parent in the file.
    for key in ("ctrl_deps",):
        places = [
            [
                next((i for i, m in enumerate(t["nodes"]) if m["id"] == n.get(key)), None)
                for n in t["nodes"]
            ]
            for t in traces
        ]
        assert places[0] == places[1]
    assert {"forward", "aten::addmm", "aten::threshold_backward"} <= {
        n["name"] for n in ours["nodes"]
    }


def test_our_observer_given_to_a_profile_and_only_one_at_a_time(tmp_path):
    path = tmp_path / "trace.json.gz"
    observer = fastprof.ExecutionTraceObserver().register_callback(path)
    assert observer.register_callback("elsewhere") is observer  # no effect while registered
    with pytest.raises(fastprof.errors.StateError, match="unregister_callback"):
        fastprof.ExecutionTraceObserver().register_callback(tmp_path / "second.json")
    with fastprof.profile(execution_trace_observer=observer):
        one_range(fastprof)(torch.ones(3))
    nodes = json.loads(gzip.decompress(path.read_bytes()))["nodes"]
    assert "a" in [node["name"] for node in nodes]
    with pytest.raises(fastprof.errors.IoError, match="none"):
        fastprof.ExecutionTraceObserver().register_callback(tmp_path / "none" / "t.json")


SELF_TESTS = """
    import json, sys, torch, fastprof
    path = sys.argv[1]
    observer = torch.profiler.ExecutionTraceObserver().register_callback(path)
    if sys.argv[2] == "by hand":
        observer.start()
        given = None
    else:
        given = observer
    with fastprof.profile(
        execution_trace_observer=given, record_shapes=True, profile_memory=True, with_modules=True
    ):
        torch.neg(torch.ones(3))
    observer.cleanup()
    print(json.dumps([node["name"] for node in json.load(open(path))["nodes"]]))
"""


@pytest.mark.parametrize("started", ["by hand", "by profile"])
def test_the_first_profile_leaves_no_self_test_in_the_observers_file(tmp_path, started):
    shown = json.loads(_run(SELF_TESTS, str(tmp_path / "trace.json"), started))
    assert {name for name in shown if not name.startswith("[pytorch")} == {
        "aten::ones",
        "aten::empty",
        "aten::fill_",
        "aten::neg",
    }


@pytest.mark.skipif(
    not hasattr(torch.profiler.ExecutionTraceObserver, "build_execution_trace_obs_from_env"),
    reason="this torch makes no observer by an environment variable (2.6)",
)
def test_the_environment_switch_makes_torchs_observer(monkeypatch, tmp_path):
    monkeypatch.setenv("ENABLE_PYTORCH_EXECUTION_TRACE", "1")
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with fastprof.profile() as prof:
        one_range(fastprof)(torch.ones(3))
    assert isinstance(prof.execution_trace_observer, torch.profiler.ExecutionTraceObserver)
    (written,) = tmp_path.glob("*.et.json")
    assert "a" in _names_in(written)
    monkeypatch.setenv("ENABLE_PYTORCH_EXECUTION_TRACE", "0")
    assert fastprof.profile().execution_trace_observer is None


# ---- the order of imports ---------------------------------------------------------------------------------------


def _run(program, *arguments):
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program), *arguments],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


COMPILE = """
    def program(x):
        with fastprof.record_function("a"), fastprof.profile():
            return x + 1
    graphs = []
    def backend(module, inputs):
        graphs.append(module)
        return module.forward
    torch.compile(program, backend=backend, fullgraph=True)(torch.ones(3))
    assert len(graphs) == 1
    from fastprof.adapters import import_watch
    assert import_watch._watch not in sys.meta_path
"""


@pytest.mark.parametrize(
    "imports",
    [
        "import sys, fastprof; fastprof.record_function, fastprof.profile; import torch",
        "import sys, torch, torch._dynamo, fastprof",
        "import sys, fastprof\n    with fastprof.profile() as prof:\n        import torch",
    ],
    ids=["before_torch", "after_dynamo", "torch_in_a_profile"],
)
def test_the_order_of_imports_does_not_matter(imports):
    _run(f"\n    {imports}{COMPILE}")


def test_torch_is_not_imported_for_it():
    _run(
        """
        import sys, fastprof
        with fastprof.profile(), fastprof.record_function("a"):
            pass
        assert not hasattr(fastprof.record_function, "_jit_override_qualname")
        assert "torch" not in sys.modules
        assert "fastprof.adapters.torch.tracers.mirror" not in sys.modules
        assert "fastprof.adapters.torch.tracers.dynamo" not in sys.modules
        """
    )
