# SPDX-License-Identifier: Apache-2.0
"""A training script as people write them, for the checks of gpu_everyday.py: everyday_train.py WAY STEPS.

plain: large products, and nothing waits. item: the same, and the loss is read in each step. tiny: hundreds of small
kernels. loader: each batch takes 20 ms to load. compiled: torch.compile with CUDA graphs. job: DDP under torchrun.
child: half of the work in a spawned process. Without a GPU it runs on the CPU, so that it can be tried anywhere.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from typing import Any

import torch

import fastprof

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


class SlowData(torch.utils.data.Dataset[Any]):
    """Items that take their time."""

    def __init__(self, items: int) -> None:
        self.items = items

    def __len__(self) -> int:
        return self.items

    def __getitem__(self, item: int) -> Any:
        time.sleep(0.02)
        return torch.rand(256, 1024)


def batches(way: str, steps: int) -> Iterator[Any]:
    """The input of each step."""
    if way == "loader":
        pin = DEVICE == "cuda"
        yield from torch.utils.data.DataLoader(
            SlowData(steps), batch_size=None, num_workers=1, pin_memory=pin
        )
        return
    size = 8192 if way in ("plain", "item") and DEVICE == "cuda" else 256
    batch = torch.rand(size, 1024, device=DEVICE)
    for _ in range(steps):
        yield batch


def train(way: str, steps: int) -> None:
    """Train for some steps; each is a range "train step"."""
    model: Any = torch.nn.Sequential(
        torch.nn.Linear(1024, 4096), torch.nn.ReLU(), torch.nn.Linear(4096, 1024)
    ).to(DEVICE)
    if way == "job":
        torch.distributed.init_process_group("nccl" if DEVICE == "cuda" else "gloo")
        model = torch.nn.parallel.DistributedDataParallel(model)
    if way == "compiled":
        model = torch.compile(model, mode="reduce-overhead")
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    small = torch.zeros(16, device=DEVICE)
    for number, batch in enumerate(batches(way, steps)):
        if number == 2:
            print("trains", flush=True)
        with fastprof.record_function("train step"):
            if way == "tiny":
                for _ in range(300):
                    small.add_(1.0)
                continue
            loss = model(batch.to(DEVICE, non_blocking=True)).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            if way == "item":
                loss.item()
    if DEVICE == "cuda":
        torch.cuda.synchronize()
    if way == "job":
        torch.distributed.destroy_process_group()


if __name__ == "__main__":
    if sys.argv[1] == "child":
        process = torch.multiprocessing.get_context("spawn").Process(
            target=train, args=("plain", int(sys.argv[2]))
        )
        process.start()
        train("plain", int(sys.argv[2]))
        process.join()
        sys.exit(process.exitcode)
    train(sys.argv[1], int(sys.argv[2]))
