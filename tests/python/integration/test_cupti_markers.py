# SPDX-License-Identifier: Apache-2.0
"""Markers of CUPTI: ranges of genuine NVTX headers, where libcupti instead of fastprof is NVTX's tool."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from annotation_doubles import build, nvtx_headers
from cuda_double import run
from needs import NEEDS_CUPTI_HEADERS

from fastprof import _paths

pytestmark = [
    pytest.mark.integrations,
    NEEDS_CUPTI_HEADERS,
    pytest.mark.skipif(not nvtx_headers(), reason="NVIDIA's headers of NVTX are not here"),
]

_HEAD = """
import warnings
client = ctypes.CDLL(os.environ["CLIENT"])
client.start.restype = ctypes.c_uint64
def end(number): client.end(ctypes.c_uint64(number))
def seen(prof):
    table = prof.event_table
    parent = table.column("parent")
    return [[table.name(r), table.name(int(parent[r])) if parent[r] >= 0 else None]
            for r in range(len(table)) if not table.column("device_type")[r]
            and table.sites.field("category")[table.column("site")[r]] != "cuda_runtime"]
"""


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(build("nvtx/marker_client.cpp", tmp_path_factory.mktemp("markers") / "client.so"))


def test_ranges_are_rows_that_launch_kernels(double: Path, tmp_path: Path, client: str) -> None:
    seen = run(double, _HEAD + """
client.push(b"before the profile")
with profile(activities=both) as prof:
    client.pop()
    with record_function("ours"):
        client.push(b"outer")
        client.push(b"inner"); launch(); client.pop()
        client.mark(b"an instant")
        client.annotated()
        client.pop()
    crossing = client.start(b"crossing")
    client.push(b"crossed"); end(crossing); client.pop()
    moved = client.start(b"moved")
    thread = threading.Thread(target=end, args=(moved,)); thread.start(); thread.join()
    client.push(b"open at the end")
prof.export_chrome_trace("t.json")
table = prof.event_table
print(json.dumps([seen(prof), sorted((e.name, k.name) for e in prof.events() for k in e.kernels),
                  {table.name(r): bool(table.column("kind")[r]) for r in range(len(table))},
                  [table.name(r) for r in rows(table, "gpu_user_annotation")], prof.missing]))
""", tmp_path, NVTX_INJECTION64_PATH=str(double), CLIENT=client)  # fmt: skip
    ranges, kernels, is_other, projected, missing = seen
    assert sorted(ranges, key=str) == sorted([
        ["ours", None], ["outer", "ours"], ["inner", "outer"], ["an instant", "outer"],
        ["annotated", "outer"], ["crossing", None], ["crossed", None], ["moved", None],
        ["open at the end", None],
    ], key=str)  # fmt: skip
    assert kernels == [["inner", "gemm(float*, float*, int)"]]
    assert is_other["crossing"] and is_other["moved"] and not is_other["crossed"]
    assert projected == ["ours", "outer", "inner"] and missing == {}
    events = json.loads((tmp_path / "t.json").read_text())["traceEvents"]
    (annotated,) = [e for e in events if e["name"] == "annotated"]
    assert annotated["cat"] == "user_annotation"
    wanted = {"domain": 'a "domain"', "category": "4", "color": "0xff76b900", "payload": 0.5}
    assert annotated["args"].items() >= wanted.items()


@pytest.mark.parametrize("tool", ["fastprof", "CUPTI"])
def test_no_range_is_there_twice(double: Path, tmp_path: Path, client: str, tool: str) -> None:
    """What fastprof emits to NVTX comes back neither from CUPTI nor from its own injection library."""
    library = str(double) if tool == "CUPTI" else str(_paths.injection_library())
    counts, missing, warned = run(double, _HEAD + """
from collections import Counter
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    with profile(activities=both) as prof:
        client.push(b"the program's"); client.pop()
        with fastprof.emit_nvtx():
            with record_function("ours"):
                launch()
        client.push(b"later"); client.pop()
table = prof.event_table
count = Counter(table.name(r).split(",")[0] for r in range(len(table)))
print(json.dumps([{name: count[name] for name in ("the program's", "ours", "later")}, prof.missing,
                  [str(one.message) for one in caught]]))
""", tmp_path, NVTX_INJECTION64_PATH=library, CLIENT=client)  # fmt: skip
    # A range on the stream of its kernel is the second row of "ours".
    assert counts == {"the program's": 1, "ours": 2, "later": 1}
    if tool == "CUPTI":
        assert "1 ranges that NVTX handed to CUPTI were left out" in missing["CUDA"]
    else:
        assert missing == {} and any("fastprof itself" in text for text in warned)
