# SPDX-License-Identifier: Apache-2.0
"""NVTX: ranges of genuine programs received, and ranges emitted to a tool built on the genuine headers."""

from __future__ import annotations

import json
import os
import subprocess
from collections import Counter
from pathlib import Path
from typing import Any

import abi_tables
import pytest
from annotation_doubles import all_nvtx_headers, build, injected, nvtx_headers, run_python
from cuda_double import genuine_headers
from processes import python

import fastprof

pytestmark = pytest.mark.integrations
_needs_headers = pytest.mark.skipif(
    not nvtx_headers(), reason="NVIDIA's headers of NVTX are not here"
)


def _has_payloads() -> bool:
    return Path(nvtx_headers(), "nvtx3", "nvToolsExtPayload.h").exists()


@_needs_headers
@pytest.mark.parametrize("folder", all_nvtx_headers())
def test_our_declarations_are_those_of_the_genuine_headers(folder: str) -> None:
    payloads = Path(folder, "nvtx3", "nvToolsExtPayload.h").exists()
    # The headers that name objects of CUDA need those of CUDA.
    cuda = [f"-I{each}" for headers in genuine_headers()[:1] for each in headers.folders]
    for table in ["nvtx.txt", *(["nvtx_payload.txt"] if payloads else [])]:
        abi_tables.compare(table, [f"-I{folder}", *cuda])


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build("nvtx/client.c", tmp_path_factory.mktemp("client") / "client")


def record(client: Path, trace: Path) -> subprocess.CompletedProcess[str]:
    """Run a program whose events fastprof writes into a trace."""
    return subprocess.run(
        [client], env=injected(FASTPROF_INJECTION_OUTPUT=str(trace)), capture_output=True, text=True,
        check=True, timeout=600,
    )  # fmt: skip


_LEVELS = [
    "push outer 0", "push wide 1", "same domain 1", "push in domain 0", "push registered 1",
    "pop registered 1", "pop wide 1", "pop in domain 0", "numbers 1", "pop outer 0", "pop nothing 1",
    "deepest was over 0",
]  # fmt: skip


@_needs_headers
@pytest.mark.parametrize("suffix", ["json", "pftrace"])
def test_a_program_that_nobody_profiles_records_itself(
    client: Path, suffix: str, tmp_path: Path
) -> None:
    trace = tmp_path / f"trace.{suffix}"
    done = record(client, trace)
    assert done.stdout.splitlines() == _LEVELS
    assert str(trace) in done.stderr
    table = fastprof.load(str(trace))
    count = Counter(table.name(r) for r in range(len(table)))
    assert count["deep"] == 200
    for name in ("outer", "wide \u00e4\u20ac\U0001f600", "registered text", "on the worker",
                 "ends on another thread", "never popped"):  # fmt: skip
        assert count[name] == 1, name
    assert count["changed"] == 0  # the text was copied at the push
    assert "worker of the client" in [track.name for track in table.tracks]


@_needs_headers
def test_attributes_are_arguments(client: Path, tmp_path: Path) -> None:
    trace = tmp_path / "trace.%p.json"
    record(client, trace)
    (written,) = tmp_path.glob("trace.*.json")
    events = json.loads(written.read_text())["traceEvents"]
    arguments: dict[tuple[str, str], Any] = {(e["ph"], e["name"]): e["args"] for e in events}
    in_domain = {
        "domain": "client.domain",
        "category": "loading",
        "color": "0xff76b900",
        "payload": -5,
    }
    assert arguments["X", "in the domain"].items() >= in_domain.items()
    assert arguments["i", "in the domain"].items() >= in_domain.items()
    # A category without a name is shown by its number.
    assert arguments["X", "registered text"] == {
        "domain": "client.domain", "category": "8", "payload": 0.5,
    }  # fmt: skip
    assert arguments["i", "unsigned payload"] == {"payload": 2**64 - 1}
    assert arguments["i", "plain mark"] == {}
    assert arguments["X", "never popped"]["finished"] is False


@_needs_headers
def test_payloads_with_schemas_are_arguments(tmp_path: Path) -> None:
    """Structs, enumerations, texts, arrays, unions and payloads that are cut short, by the genuine headers."""
    if not _has_payloads():
        pytest.skip("NVIDIA's headers of NVTX are not here")
    client = build("nvtx/payload_client.c", tmp_path / "payload_client")
    trace = tmp_path / "trace.json"
    done = record(client, trace)
    assert done.stdout.split("\n") == [
        "enabled 1", "ids 1", "push 0", "pop 0", "push payload 0", "pop payload 0", "push odd 0",
        "pop odd 0", "refused 1", "",
    ]  # fmt: skip
    events = json.loads(trace.read_text())["traceEvents"]
    seen = [(e["ph"], e["name"], {k: v for k, v in e["args"].items() if k not in ("domain", "is_async")})
            for e in events if e["ph"] in "Xi" and "domain" in e.get("args", {})]  # fmt: skip
    batch = {
        "kind": 7, "count": -3, "rate": 2.5, "title": "first title", "fixed": "abcdefgh",
        "sizes": "[1, 2, 65535]", "mode": "read|write", "at.x": 0.5, "at.y": -1.0, "address": "0x1000",
    }  # fmt: skip
    assert [one for one in seen if one[1] == "with payload"] == [
        ("X", "with payload", batch), ("i", "with payload", batch), ("X", "with payload", batch),
    ]  # fmt: skip
    ((_, _, inside),) = [one for one in seen if one[1] == "from inside"]
    assert list(inside.values()) == [2, "[-1, 5]", "<not read>", 5, "0xffffffff"]
    assert ("i", "payload at the end", {"payload": 5}) in seen
    unnamed = [arguments for _, name, arguments in seen if name == "(no message)"]
    assert unnamed[:3] == [
        {"which": 0, "value": "12"}, {"which": 1, "value": "0.25"}, {"which": 2, "value": "<not read>"},
    ]  # fmt: skip
    assert unnamed[3] == {"which": 0, "endless": "<not read>"}
    more = [a for a in unnamed if "more" in a]
    assert len(more) == 1 and len(more[0]) == 11 and more[0]["more"].endswith("value 15 = 102")
    assert {"payload": "<not read>", "kind": 7, "count": "<not read>"} in unnamed


def test_the_python_package_is_received() -> None:
    pytest.importorskip("nvtx")
    rows = run_python(
        """
import json, threading
import fastprof
fastprof.receive_nvtx()
import nvtx
@nvtx.annotate("decorated", color="green", domain="python", category="work")
def decorated():
    nvtx.mark("marked", domain="python")
open_range = nvtx.start_range("across threads", domain="python")
with fastprof.profile() as prof:
    with fastprof.record_function("ours"):
        with nvtx.annotate("plain"):
            decorated()
    crossing = nvtx.start_range("crossing")
    thread = threading.Thread(target=nvtx.end_range, args=(crossing,))
    thread.start(); thread.join()
    nvtx.push_range("pushed", payload=7); nvtx.pop_range()
nvtx.end_range(open_range)
table = prof.event_table
parent = table.column("parent")
print(json.dumps([[table.name(r), table.name(int(parent[r])) if parent[r] >= 0 else None]
                  for r in range(len(table))]))
""",
        {k: v for k, v in os.environ.items() if k != "NVTX_INJECTION64_PATH"},
    )
    assert ["plain", "ours"] in rows and ["decorated", "plain"] in rows
    assert [name for name, _ in rows if name in ("crossing", "pushed")] == ["crossing", "pushed"]
    assert all(name != "across threads" for name, _ in rows)  # begun before the profile


@_needs_headers
def test_emitted_text_is_that_of_pytorch(tmp_path: Path) -> None:
    """PyTorch's own emitter, on stubs that log, and ours run at once: every line must be equal."""
    torch = pytest.importorskip("torch")
    root = Path(torch.__file__).parent
    build(
        "nvtx/torch_stubs.cpp", tmp_path / "stubs.so", "-w", f"-I{root / 'include'}",
        f"-L{root / 'lib'}", "-ltorch_cpu", "-lc10", f"-Wl,-rpath,{root / 'lib'}",
    )  # fmt: skip
    collector = build("nvtx/collector.cpp", tmp_path / "collector.so")
    program = """
import ctypes, sys
import torch
import fastprof
from torch._C._profiler import _ExperimentalConfig
from torch.autograd.profiler import ProfilerConfig, ProfilerState, _disable_profiler, _enable_profiler
ctypes.CDLL(sys.argv[1]).use_stubs()
shapes = sys.argv[2] == "shapes"
a, b = torch.ones(3, 4, requires_grad=True), torch.ones(4, 5, requires_grad=True)
with fastprof.emit_nvtx(record_shapes=shapes):
    config = ProfilerConfig(ProfilerState.NVTX, shapes, False, False, False, False, _ExperimentalConfig())
    _enable_profiler(config, set())
    c = a @ b
    d = torch.cat([c, c * 2, torch.relu(c)], 1)
    with torch.profiler.record_function("a user's range"):
        values, indices = torch.max(d, 1)
    torch.index_put(c, [torch.zeros(1, dtype=torch.int64)], c[0])
    torch.ones(1, 1, 1, 1, 1, 2, 3) + 1
    torch._foreach_mul([c, d], [0.5, 2])
    torch.ones(4).to_sparse() * 2
    torch.einsum("ij,kj->ik", c, c)
    d.sum().backward()
    _disable_profiler()
"""
    for shapes in ("plain", "shapes"):
        logs = tmp_path / f"{shapes}.torch", tmp_path / f"{shapes}.fastprof"
        python(
            "-c", program, tmp_path / "stubs.so", shapes, check=True, NVTX_INJECTION64_PATH=str(collector),
            STUBS_LOG=str(logs[0]), COLLECTOR_LOG=str(logs[1]),
        )  # fmt: skip
        torchs, ours = (log.read_text().splitlines() for log in logs)
        assert len(torchs) > 200 and torchs == ours
        assert any(", input_op_ids = [(" in line for line in ours) == (shapes == "shapes")


@_needs_headers
def test_ops_are_emitted_when_torch_is_imported_inside(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    collector = build("nvtx/collector.cpp", tmp_path / "collector.so")
    log = tmp_path / "log"
    program = """
import json
import fastprof
with fastprof.emit_nvtx(), fastprof.profile() as prof:
    with fastprof.record_function("around"):
        import torch
        torch.ones(2) + 1
torch.ones(3) * 2
print(json.dumps(prof.missing))
"""
    environment = {**os.environ, "NVTX_INJECTION64_PATH": str(collector), "COLLECTOR_LOG": str(log)}
    assert run_python(program, environment) == {}
    lines = [line.split(" ", 1)[1] for line in log.read_text().splitlines()]
    assert lines[0].startswith("push around, op_id = ") and lines[-1] == "pop "
    assert any(line.startswith("push aten::add, ") for line in lines)
    assert not any("aten::mul" in line for line in lines)
    assert sum(line.startswith("push") for line in lines) == sum(line == "pop " for line in lines)


@_needs_headers
def test_the_exclusive_profiler_passes_ranges_on(tmp_path: Path) -> None:
    """State NVTX of the legacy profiler, whose stubs are the attached tool."""
    collector = build("nvtx/collector.cpp", tmp_path / "collector.so")
    log = tmp_path / "log"
    program = """
import json
import fastprof
from fastprof import _core
NVTX = 3
problem = _core.legacy_state_missing(NVTX)
if not problem:
    _core.legacy_enable(state=NVTX, record_shapes=False, profile_memory=False, with_stack=False,
                        with_flops=False, with_modules=False)
    with fastprof.record_function("outer"):
        with fastprof.record_function("inner"):
            pass
    _core.legacy_mark("mark", False)
    records = _core.legacy_disable().records()
    with fastprof.record_function("after"):
        pass
    assert not any(records), records
print(json.dumps(problem))
"""
    without = {k: v for k, v in os.environ.items() if k != "NVTX_INJECTION64_PATH"}
    assert "the registered NVTX stubs report that they are not enabled" in run_python(
        program, without
    )
    attached = {**os.environ, "NVTX_INJECTION64_PATH": str(collector), "COLLECTOR_LOG": str(log)}
    assert run_python(program, attached) == ""
    lines = [line.split(" ", 1)[1].split(",")[0].strip() for line in log.read_text().splitlines()]
    wanted = ["push outer", "push inner", "pop", "pop"]
    assert [line for line in lines if not line.startswith("mark")] == wanted
    assert "mark mark" in lines
