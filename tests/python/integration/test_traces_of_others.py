# SPDX-License-Identifier: Apache-2.0
"""Traces that others write, loaded and compared with json.load() field by field.

FASTPROF_TRACES=FOLDER compares the Chrome traces in a folder, too, such as the samples of HolisticTraceAnalysis.
"""

from __future__ import annotations

import gzip
import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest
from processes import python
from trace_by_json import differences

import fastprof

pytestmark = pytest.mark.integrations

PROGRAM = """
def leaf(n):
    return sum(range(n))

def work(n):
    return [leaf(i) for i in range(n)]

for _ in range(3):
    work(20)
"""


def test_a_trace_of_torch(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    model = torch.nn.Sequential(torch.nn.Linear(16, 8), torch.nn.ReLU(), torch.nn.Linear(8, 1))
    with torch.profiler.profile(
        record_shapes=True, with_stack=True, profile_memory=True, with_flops=True
    ) as prof:
        for step in range(3):
            with torch.profiler.record_function(f"step {step}"):
                model(torch.randn(4, 16)).sum().backward()
    path, packed = tmp_path / "torch.json", tmp_path / "torch.json.gz"
    prof.export_chrome_trace(str(path))  # once: a second call fails
    packed.write_bytes(gzip.compress(path.read_bytes()))
    for each in (path, packed):
        assert differences(each) == []
        assert len(fastprof.load(each)) > 100


def test_a_trace_of_viztracer(tmp_path: Path) -> None:
    pytest.importorskip("viztracer")
    program, path = tmp_path / "program.py", tmp_path / "viz.json"
    program.write_text(PROGRAM)
    python("-m", "viztracer", "-o", path, "--quiet", program, check=True)
    assert differences(path) == []
    names = list(fastprof.load(path).names)
    assert sum("leaf" in name for name in names) >= 1


def test_a_trace_of_jax(tmp_path: Path) -> None:
    jax = pytest.importorskip("jax")
    with jax.profiler.trace(str(tmp_path), create_perfetto_trace=True):
        for _ in range(3):
            with jax.profiler.TraceAnnotation("planted"):
                jax.numpy.ones(64).sum().block_until_ready()
    found = sorted(tmp_path.rglob("*.json.gz"))
    assert len(found) == 2
    for path in found:
        assert differences(path) == []
        table = fastprof.load(path)
        assert [a.count for a in table.key_averages() if a.key == "planted"] == [3]
        # The empty object at the end.
        assert table.metadata["skipped_events"] == {"event without a phase (ph)": 1}


def test_a_trace_of_clang(tmp_path: Path) -> None:
    """`-ftime-trace`: 200 instantiations of a template, each with its name."""
    if shutil.which("clang++") is None:
        pytest.skip("clang++ is not installed")
    source = tmp_path / "program.cpp"
    source.write_text(
        "template <int n> struct F { static constexpr int v = F<n - 1>::v + 1; };\n"
        "template <> struct F<0> { static constexpr int v = 0; };\nint main() { return F<200>::v; }\n"
    )
    words = ["clang++", "-ftime-trace", "-ftime-trace-granularity=0", "-c", source.name]
    subprocess.run(words, cwd=tmp_path, check=True, timeout=300)
    path = source.with_suffix(".json")
    assert differences(path) == []
    table = fastprof.load(path)
    made = [event for event in table.events() if event.name == "InstantiateClass"]
    details = {json.loads(event.metadata_json)["detail"] for event in made}
    assert details == {f"F<{n}>" for n in range(1, 201)} and len(made) == 200


def test_a_trace_of_node(tmp_path: Path) -> None:
    """`--trace-event-categories`: V8's own events, and console.time() as an asynchronous one."""
    if shutil.which("node") is None:
        pytest.skip("node is not installed")
    path = tmp_path / "node.json"
    script = "console.time('planted'); setTimeout(() => console.timeEnd('planted'), 20)"
    options = ["--trace-event-categories", "v8,node.console", "--trace-event-file-pattern", path]
    subprocess.run(["node", *options, "-e", script], check=True, timeout=300, capture_output=True)
    assert differences(path) == []
    events = json.loads(path.read_text())["traceEvents"]
    begin, end = (next(e["ts"] for e in events if e["ph"] == phase) for phase in "be")
    (found,) = (a for a in fastprof.load(path).key_averages() if a.key == "time::planted")
    assert found.count == 1 and found.cpu_time_total == end - begin >= 19_000


def test_a_difference_is_found(tmp_path: Path) -> None:
    path = tmp_path / "t.json"
    event = '{"ph": "X", "name": "a", "cat": "c", "pid": 1, "tid": 2, "ts": 5.25, "dur": %s, "args": {}}'
    path.write_text(f"[{event % 1.5}]")
    assert differences(path) == []
    loaded = fastprof.load(path)
    path.write_text(f"[{event % 1.501}]")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fastprof, "load", lambda _: loaded)
        assert [line.split(":")[0] for line in differences(path)] == [
            "only in the file",
            "only in the table",
        ]


def test_samples_of_others() -> None:
    folder = os.environ.get("FASTPROF_TRACES")
    files = sorted(Path(folder).iterdir()) if folder else []
    assert {str(file): differences(file) for file in files} == {str(file): [] for file in files}
