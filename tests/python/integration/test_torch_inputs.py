# SPDX-License-Identifier: Apache-2.0
"""Inputs of PyTorch's ops (shapes, strides, dtypes, values, overloads, FLOPs), compared with torch.profiler's."""

from __future__ import annotations

import threading
import warnings
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from known_torch import (
    known_fields,
    needs_inputs,
    one_thread,  # noqa: F401 (serves every test)
    torch,
)
from torch_parity import theirs as by_torch
from torch_pieces import train_perceptron

import fastprof
from fastprof import _core

pytestmark = [pytest.mark.integrations, needs_inputs]


def mlp() -> None:
    train_perceptron(torch.optim.AdamW, lr=0.1)


def convolution() -> None:
    torch.manual_seed(0)
    model = torch.nn.Sequential(
        torch.nn.Conv2d(1, 4, 3, stride=2, padding=1),
        torch.nn.BatchNorm2d(4),
        torch.nn.MaxPool2d(2),
        torch.nn.Conv2d(4, 2, 3, padding="same", groups=2, bias=False),
        torch.nn.AdaptiveAvgPool2d(1),
        torch.nn.Dropout(),
    )
    model(torch.randn(2, 1, 16, 16)).sum().backward()


def attention() -> None:
    torch.manual_seed(0)
    layer = torch.nn.TransformerEncoderLayer(16, 2, 32, batch_first=True, dropout=0.0)
    layer(torch.randn(2, 5, 16)).sum().backward()


def views_in_place() -> None:
    x = torch.zeros(4, 6)
    x.view(24)[2:5].add_(1)
    x.t()[::2].mul_(2).unsqueeze(0).expand(3, 3, 4).contiguous()
    x.as_strided((2, 2), (1, 7), 1).fill_(0.5)
    torch.zeros(1, 1, 1, 1, 1, 1, 2).squeeze()


def long_lists() -> None:
    x = torch.ones(3, 2)
    torch.cat([x] * 40)
    torch._foreach_add([x] * 31, 1.5)
    torch._foreach_mul([x, x], [0.5, 2])
    for length in (0, 1, 2, 3, 29, 30, 31):
        torch.zeros([1] * length)
        torch._foreach_mul([x] * length if length else [x], [1.5] * max(length, 1))
    torch._foreach_add([x, x, x], [2, 0.5, 3])
    torch._foreach_add([x, x], [True, 2])
    torch.empty_strided((1, 1, 2), (1 << 31, 1 << 33, 1))
    torch.empty_strided((2, 1), (1, (1 << 31) - 1))
    x.flip([-1, 0]).roll([1, -1], [0, 1])
    torch.stack([x, x.double().t().contiguous().t()][:1])
    torch.einsum("ij,kj->ik", x, x)
    torch.index_put(x, [torch.zeros(1, dtype=torch.int64)], x[0])
    x[None, :, torch.tensor([0, 1])]


def dtypes() -> None:
    for dtype in (
        torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.bfloat16,
        torch.half, torch.float, torch.double, torch.complex64, torch.complex128, torch.chalf,
        torch.float8_e5m2, torch.float8_e4m3fn, torch.uint16, torch.uint32, torch.uint64,
    ):  # fmt: skip
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # complex half is experimental
            x = torch.empty((2, 3), dtype=dtype)
        x.clone().view(-1)
        torch.empty_like(x, device="meta")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # deprecated
        torch.quantize_per_tensor(torch.ones(3), 0.1, 1, torch.qint8).dequantize()


def scalars() -> None:
    x = torch.ones(3)
    for value in (1, -1, 1 << 40, -(1 << 62), 0.1, -0.0, 1e30, True, float("inf"), float("nan")):
        torch.full((2,), value)
        torch.mul(x, value)
        torch.clamp(x, None, value)
    torch.full((2,), 2 - 3j)
    torch.sum(x, dim=(), keepdim=True)
    torch.add(x, x, alpha=2.5)
    torch.norm(x, p=2)
    torch.searchsorted(torch.arange(3.0), x, side="right")
    torch.quantile(x, 0.5, interpolation="linear")


def no_sizes() -> None:
    torch.empty(0).sum()
    torch.ones(()).item()
    torch.ones(0, 3).t().contiguous()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        nested = torch.nested.nested_tensor([torch.ones(2), torch.ones(3)])
        torch.neg(nested)
        torch.ones(3, 3).to_sparse_csr().neg()
    torch.ones(3, 3).to_sparse().add(torch.ones(3, 3).to_sparse()).to_dense()


def undefined() -> None:
    x = torch.ones(3, 4, requires_grad=True)
    y = torch.nn.functional.layer_norm(x, (4,))
    torch.autograd.grad(y.sum(), x, allow_unused=True)
    w = torch.ones(2, 1, 3, 3, requires_grad=True)
    torch.nn.functional.conv2d(torch.ones(1, 1, 5, 5), w).sum().backward()


def wide() -> None:
    x = torch.empty(1 << 33, device="meta")
    x.view(2, -1).t().neg()
    x.as_strided((2,), (1 << 32,)).neg()


def annotated() -> None:
    with torch.profiler.record_function("with text", "some text"):
        torch.ones(2)


WORK: list[Callable[[], None]] = [
    mlp, convolution, attention, views_in_place, long_lists, dtypes, scalars, no_sizes, undefined,
    wide, annotated,
]  # fmt: skip

FIELDS = known_fields((
    "name", "overload_name", "scope", "input_shapes", "concrete_inputs", "flops",
    "structured_input_shapes", "structured_input_strides", "input_dtypes",
))  # fmt: skip


def ours(work: Callable[[], None], **arguments: Any) -> Any:
    with fastprof.profile(**arguments) as p:
        work()
    assert not p.missing
    return p


def theirs(work: Callable[[], None]) -> Any:
    return by_torch(work, record_shapes=True, with_flops=True)


def facts(events: Any) -> Counter[str]:
    """Return facts of every event, with the name of the event around it.

    FLOPs are left out where torch counts none and fastprof does (see fastprof/analysis/flops.py).
    """

    def fact(event: Any, field: str) -> Any:
        beyond = field == "flops" and event.name in ("aten::scaled_dot_product_attention",)
        return "beyond" if beyond else getattr(event, field)

    return Counter(
        repr([fact(e, field) for field in FIELDS] + [getattr(e.cpu_parent, "name", None)])
        for e in events
    )


@pytest.mark.parametrize("work", WORK, ids=lambda f: f.__name__)
def test_inputs_as_torch_profiler_has_them(work: Callable[[], None]) -> None:
    work()
    mine = facts(ours(work, record_shapes=True, with_flops=True).events())
    other = facts(theirs(work).events())
    assert mine - other == Counter()
    assert other - mine == Counter()


def test_a_profile_with_shapes_inside_one_without() -> None:
    def work() -> None:
        torch.ones(3).add(2)

    with fastprof.profile() as outer:
        inner = ours(work, record_shapes=True)
        work()
    with fastprof.profile(record_shapes=True) as around:
        plain = ours(work)
        work()

    def adds(p: Any) -> list[Any]:
        return [e.input_shapes for e in p.events() if e.name == "aten::add"]

    assert adds(inner) == [[[3], [], []]]
    assert not any(adds(outer)) and len(adds(outer)) == 2
    assert not any(adds(plain))
    assert adds(around) == [[[3], [], []]] * 2


def test_averages_by_shape_and_overload() -> None:
    def work() -> None:
        for n in (2, 3, 3):
            torch.add(torch.ones(n), torch.ones(n))
        torch.add(torch.ones(3), 1.0)

    mine, other = ours(work, record_shapes=True, with_flops=True), theirs(work)
    for options in (
        {"group_by_input_shape": True},
        {"group_by_overload_name": True},
        {"group_by_input_shape": True, "group_by_overload_name": True},
        {},
    ):
        rows = [
            Counter(
                (a.key, a.count, str(a.input_shapes), a.overload_name, a.flops)
                for a in p.key_averages(**options)
            )
            for p in (mine, other)
        ]
        assert rows[0] == rows[1], options


@pytest.mark.parametrize("suffix", ["fastprof", "json", "pftrace", "records"])
def test_files_have_the_same_shapes_and_flops(tmp_path: Path, suffix: str) -> None:
    path, records = tmp_path / f"t.{suffix}", tmp_path / "t.records"
    with fastprof.profile(record_shapes=True, with_flops=True, backing_file=str(records)) as p:
        for each in (long_lists, convolution, attention):
            with fastprof.record_function(each.__name__):
                each()
        with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):
            torch.nn.functional.scaled_dot_product_attention(*[torch.ones(1, 2, 4, 8)] * 3)
        found = fastprof.recover(path) if path == records else None
    if found is None:
        p.export(path)
        found = fastprof.load(path)

    def rows(table: fastprof.EventTable) -> Counter[Any]:
        averages = table.events().key_averages(group_by_input_shape=True)
        return Counter((e.key, str(e.input_shapes), e.count, e.flops) for e in averages)

    assert rows(found) == rows(p.event_table)


def test_a_stop_while_other_threads_run_ops() -> None:
    stopped = threading.Event()
    a, b = torch.ones(2, 3), torch.ones(2, 3)

    def work() -> None:
        while not stopped.is_set():
            torch.add(a, b, alpha=-2.5)

    threads = [threading.Thread(target=work) for _ in range(2)]
    for thread in threads:
        thread.start()
    try:
        seen = 0
        for _ in range(300):
            with fastprof.profile(record_shapes=True) as p:
                torch.sub(a, b)
            for event in p.events():
                if event.name == "aten::add":
                    assert event.input_shapes == [[2, 3], [2, 3], []]
                    assert event.concrete_inputs[2] == -2.5
                    seen += 1
        assert seen != 0
    finally:
        stopped.set()
        for thread in threads:
            thread.join()


def test_inputs_of_an_unknown_version_are_not_looked_at() -> None:
    assert _core.torch_known_input_layout("2.5.1", True) is None
    assert _core.torch_known_input_layout("2.99.0", True) is None
    assert _core.torch_known_input_layout("2.13.0", False) is None
