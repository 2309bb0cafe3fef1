# SPDX-License-Identifier: Apache-2.0
"""Train a small network on scikit-learn's digits under fastprof; print the table and write the traces.

Needs NumPy and scikit-learn. If PyTorch is installed, trains a second network with it. Run `make demo`, or:
python examples/digits.py [--epochs N] [--out FOLDER] [--no-torch]
"""

from __future__ import annotations

import argparse
import importlib.util
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.datasets import load_digits

import fastprof
from fastprof import record_function
from fastprof.exporters.range_stacks import export_range_stacks

BATCH = 64


def load_data() -> tuple[Any, Any, Any, Any]:
    """Return (train x, train y, test x, test y); x has shape (n, 64) and values in [0, 1]."""
    with record_function("load data"):
        digits = load_digits()
        x = (digits.data / 16).astype(np.float32)
        order = np.random.default_rng(0).permutation(len(x))
        x, y = x[order], digits.target[order]
        return x[:1400], y[:1400], x[1400:], y[1400:]


class Network:
    """A network 64 -> 96 -> 10 with ReLU and softmax, trained by stochastic gradient descent."""

    def __init__(self) -> None:
        rng = np.random.default_rng(1)
        self.w1 = rng.normal(0, 0.15, (64, 96)).astype(np.float32)
        self.b1 = np.zeros(96, np.float32)
        self.w2 = rng.normal(0, 0.12, (96, 10)).astype(np.float32)
        self.b2 = np.zeros(10, np.float32)

    def hidden(self, x: Any) -> Any:
        """Return the output of the hidden layer."""
        with record_function("linear", shapes=[list(x.shape), list(self.w1.shape)]):
            z = x @ self.w1 + self.b1
        with record_function("relu", shapes=[list(z.shape)]):
            return np.maximum(z, 0)

    def scores(self, hidden: Any) -> Any:
        """Return the score of each digit."""
        with record_function("linear", shapes=[list(hidden.shape), list(self.w2.shape)]):
            return hidden @ self.w2 + self.b2

    def step(self, x: Any, y: Any, rate: float) -> float:
        """Take one training step; return the loss before it."""
        with record_function("forward"):
            hidden = self.hidden(x)
            scores = self.scores(hidden)
            with record_function("softmax"):
                scores -= scores.max(1, keepdims=True)
                p = np.exp(scores)
                p /= p.sum(1, keepdims=True)
        with record_function("loss"):
            loss = float(-np.log(p[np.arange(len(y)), y] + 1e-9).mean())
        with record_function("backward"):
            p[np.arange(len(y)), y] -= 1
            p /= len(y)
            back = (p @ self.w2.T) * (hidden > 0)
            gradients = (x.T @ back, back.sum(0), hidden.T @ p, p.sum(0))
        with record_function("update"):
            parameters = (self.w1, self.b1, self.w2, self.b2)
            for parameter, gradient in zip(parameters, gradients, strict=True):
                parameter -= rate * gradient
        return loss


def train_numpy(data: tuple[Any, Any, Any, Any], epochs: int) -> float:
    """Train with NumPy; return the fraction of correct answers on the test digits."""
    x, y, test_x, test_y = data
    network = Network()
    for epoch in range(epochs):
        with record_function("epoch", number=epoch):
            for at in range(0, len(x), BATCH):
                loss = network.step(x[at : at + BATCH], y[at : at + BATCH], 0.3)
                fastprof.counter("loss", loss)
        with record_function("evaluate"):
            answers = network.scores(network.hidden(test_x)).argmax(1)
    return float((answers == test_y).mean())


def train_torch(data: tuple[Any, Any, Any, Any], epochs: int) -> float:
    """Train with PyTorch; return the fraction of correct answers on the test digits."""
    import torch

    torch.manual_seed(0)
    x, y, test_x, test_y = (torch.from_numpy(part) for part in data)
    with record_function("build"):
        layers = [torch.nn.Linear(64, 96), torch.nn.ReLU(), torch.nn.Linear(96, 10)]
        model = torch.nn.Sequential(*layers)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.3)
    for epoch in range(epochs):
        with record_function("epoch", number=epoch):
            for at in range(0, len(x), BATCH):
                with record_function("forward"):
                    scores = model(x[at : at + BATCH])
                with record_function("loss"):
                    loss = torch.nn.functional.cross_entropy(scores, y[at : at + BATCH])
                with record_function("backward"):
                    optimizer.zero_grad()
                    loss.backward()
                with record_function("update"):
                    optimizer.step()
        with record_function("evaluate"), torch.no_grad():
            answers = model(test_x).argmax(1)
    return float((answers == test_y).float().mean())


def main() -> None:
    """Train both networks, print the table and write the files."""
    parser = argparse.ArgumentParser(description="train on digits under fastprof")
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--out", type=Path, default=Path("build/demo"), help="folder of the files")
    parser.add_argument("--no-torch", action="store_true", help="NumPy only")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    with_torch = not options.no_torch and importlib.util.find_spec("torch") is not None
    if with_torch:
        import torch  # noqa: F401 - so that the table shows the training, not the import

    print(f"Training on scikit-learn's digits, {options.epochs} epochs ...", flush=True)
    with fastprof.profile(record_shapes=True) as profile:
        data = load_data()
        with record_function("train (NumPy)"):
            right = {"NumPy": train_numpy(data, options.epochs)}
        if with_torch:
            with record_function("train (PyTorch)"):
                right["PyTorch"] = train_torch(data, options.epochs)

    print(profile.key_averages().table(sort_by="self_cpu_time_total", row_limit=15))
    for name, share in right.items():
        print(f"{name}: {100 * share:.1f} % of the test digits right")

    trace = options.out / "digits.trace.json"
    folded = options.out / "digits.folded"
    flame = options.out / "digits.speedscope.json"
    own = options.out / "digits.fastprof"
    report = options.out / "digits.html"
    print("Writing the report and the traces ...", flush=True)
    profile.export_html(report, title="digits")
    profile.export_chrome_trace(str(trace))
    export_range_stacks(profile.event_table, folded)
    profile.export(flame)
    fastprof.save(profile, own)
    print(f"""
{len(profile.events())} ranges. Written:
  {report}
      the report: open it in a browser (no network is needed)
  {trace}
      timeline: open https://ui.perfetto.dev and drop the file on it (it stays on your machine)
  {flame}
      flame graph: open https://www.speedscope.app and drop the file on it
  {folded}
      the same data as collapsed stacks, with self times in nanoseconds: flamegraph.pl --countname ns
  {own}
      all data in fastprof's own format: fastprof report {own}""")


if __name__ == "__main__":
    main()
