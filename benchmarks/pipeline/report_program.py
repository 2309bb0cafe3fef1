# SPDX-License-Identifier: Apache-2.0
"""The program that report_peers.py profiles: train a small network on scikit-learn's digits with NumPy alone.

Prints the seconds that training took, without imports, and its CPU time. Uses no profiler itself.
"""

from __future__ import annotations

import sys
import time
from typing import Any

import numpy as np
from sklearn.datasets import load_digits

BATCH = 16


def softmax(scores: Any) -> Any:
    """Return the probabilities of each row."""
    powers = np.exp(scores - scores.max(1, keepdims=True))
    return powers / powers.sum(1, keepdims=True)


class Layer:
    """A linear layer."""

    def __init__(self, rng: Any, inputs: int, outputs: int) -> None:
        self.weights = rng.normal(0, 0.15, (inputs, outputs))
        self.bias = np.zeros(outputs)

    def forward(self, x: Any) -> Any:
        """Return the output; keep the input for the gradient."""
        self.x = x
        return x @ self.weights + self.bias

    def backward(self, gradient: Any, rate: float) -> Any:
        """Update the weights; return the gradient of the input."""
        back = gradient @ self.weights.T
        self.weights -= rate * (self.x.T @ gradient)
        self.bias -= rate * gradient.sum(0)
        return back


def step(layers: list[Layer], x: Any, y: Any, rate: float) -> float:
    """Take one training step; return the loss before it."""
    hidden = np.maximum(layers[0].forward(x), 0)
    p = softmax(layers[1].forward(hidden))
    rows = np.arange(len(y))
    loss = float(-np.log(p[rows, y] + 1e-9).mean())
    p[rows, y] -= 1
    layers[0].backward(layers[1].backward(p / len(y), rate) * (hidden > 0), rate)
    return loss


def train(epochs: int) -> float:
    """Return the loss after so many epochs."""
    digits = load_digits()
    x, y = digits.data / 16, digits.target
    rng = np.random.default_rng(0)
    layers = [Layer(rng, 64, 96), Layer(rng, 96, 10)]
    loss = 0.0
    for _ in range(epochs):
        order = rng.permutation(len(x))
        for at in range(0, len(x), BATCH):
            batch = order[at : at + BATCH]
            loss = step(layers, x[batch], y[batch], 0.2)
    return loss


if __name__ == "__main__":
    begin, cpu = time.perf_counter(), time.process_time()
    train(int(sys.argv[1]) if sys.argv[1:] else 100)
    took, cpu = time.perf_counter() - begin, time.process_time() - cpu
    print(f"trained in {took:.4f} s, CPU {cpu:.4f} s", flush=True)
