# SPDX-License-Identifier: Apache-2.0
"""Small seeded workloads in PyTorch: each call creates its models and data, and does the same work.

The steps of torch_workloads.py, in contrast, keep models and optimizers between calls. Needs torch.
"""

from __future__ import annotations

from typing import Any

from known_torch import torch

nn = torch.nn


def train_perceptron(optimizer_type: Any, **options: Any) -> None:
    """Two steps of training a perceptron under an optimizer made with these options."""
    torch.manual_seed(3)
    model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 2))
    optimizer = optimizer_type(model.parameters(), **options)
    x = torch.randn(5, 8)
    for _ in range(2):
        optimizer.zero_grad()
        model(x).square().mean().backward()
        optimizer.step()


def mlp() -> None:
    """The perceptron under SGD."""
    train_perceptron(torch.optim.SGD, lr=0.1)


def convolution() -> None:
    """Convolution, batch norm, pooling and dropout, and their backward pass."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2), nn.MaxPool2d(2), nn.Dropout())
    model(torch.randn(1, 1, 8, 8)).sum().backward()


def recurrent() -> None:
    """One layer of an LSTM, and its backward pass."""
    torch.manual_seed(0)
    y, _ = nn.LSTM(4, 3)(torch.randn(5, 2, 4))
    y.sum().backward()


class Cube(torch.autograd.Function):
    """x ** 3, differentiable twice."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(x)
        return x**3

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        (x,) = ctx.saved_tensors
        return grads[0] * 3 * x**2


def double_backward() -> None:
    """A custom function, differentiated twice."""
    x = torch.ones(3, requires_grad=True)
    (g,) = torch.autograd.grad(Cube.apply(x).sum(), x, create_graph=True)
    g.sum().backward()


def branch(x: torch.Tensor) -> torch.Tensor:
    """The branch that `overtaken` forks."""
    return torch.cosh(x) + torch.sinh(x)


def overtaken(x: torch.Tensor) -> torch.Tensor:
    """For torch.jit.script: wait for a branch; may return before the branch's function has ended."""
    future = torch.jit.fork(branch, x)
    return torch.tanh(x) + torch.jit.wait(future)
