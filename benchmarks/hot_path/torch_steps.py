# SPDX-License-Identifier: Apache-2.0
"""PyTorch workloads for the benchmarks, and the options with which both profilers observe them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

import fastprof

OPTIONS: dict[str, dict[str, bool]] = {
    "plain": {},
    "record_shapes": {"record_shapes": True},
    "profile_memory": {"profile_memory": True},
    "with_stack": {"with_stack": True},
    "everything": {
        "record_shapes": True,
        "profile_memory": True,
        "with_stack": True,
        "with_flops": True,
    },
}


def add_step() -> Callable[[], Any]:
    """Run 500 additions of 4 elements."""
    a, b, out = torch.ones(4), torch.ones(4), torch.empty(4)

    def step() -> None:
        for _ in range(500):
            torch.add(a, b, out=out)

    return step


def mlp_step() -> Callable[[], Any]:
    """Run forward, backward and SGD of a small perceptron."""
    model = torch.nn.Sequential(
        torch.nn.Linear(16, 32), torch.nn.ReLU(), torch.nn.Linear(32, 32), torch.nn.ReLU(), torch.nn.Linear(32, 4)
    )  # fmt: skip
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    x = torch.randn(8, 16)

    def step() -> None:
        for _ in range(5):
            optimizer.zero_grad()
            model(x).square().mean().backward()
            optimizer.step()

    return step


def transformer_step() -> Callable[[], Any]:
    """Run forward, backward and AdamW of two encoder layers of width 64, on 16 sequences of length 8."""
    layer = torch.nn.TransformerEncoderLayer(64, 4, 128, batch_first=True, dropout=0.0)
    model = torch.nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
    optimizer = torch.optim.AdamW(model.parameters(), foreach=False)
    x = torch.randn(16, 8, 64)

    def step() -> None:
        optimizer.zero_grad()
        model(x).square().mean().backward()
        optimizer.step()

    return step


def count_ops(step: Callable[[], Any]) -> int:
    with fastprof.profile() as p:
        step()
    return len(p.event_table)


WORKLOADS: dict[str, Callable[[], Callable[[], Any]]] = {
    make.__name__: make for make in (add_step, mlp_step, transformer_step)
}
