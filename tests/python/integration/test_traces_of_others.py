# SPDX-License-Identifier: Apache-2.0
"""Traces that others write, loaded and compared with json.load() field by field.

FASTPROF_TRACES=FOLDER compares the Chrome traces in a folder, too, such as the samples of HolisticTraceAnalysis.
"""

from __future__ import annotations

import gzip
import os
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
