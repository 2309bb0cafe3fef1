# SPDX-License-Identifier: Apache-2.0
"""Profile a training loop in cycles and write traces for TensorBoard, as in PyTorch's TensorBoard tutorial.

    python examples/torch_training.py [--torch] [--rows N] [--out FOLDER]

`--torch` uses torch.profiler instead of fastprof: only the import changes. PyTorch itself annotates
optimizer steps and loader batches, so the traces name them.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import torch
from torch import nn

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--torch", action="store_true", help="profile with torch.profiler")
parser.add_argument("--rows", type=int, default=15, help="rows of the table")
parser.add_argument("--out", type=Path, default=Path("build/demo/log"), help="folder for traces")
options = parser.parse_args()
if options.torch:
    import torch.profiler as profiler
else:
    import fastprof as profiler

torch.manual_seed(0)
torch.set_num_threads(1)
images = torch.randn(64, 3, 32, 32)
labels = torch.randint(0, 10, (64,))
loader = torch.utils.data.DataLoader(
    torch.utils.data.TensorDataset(images, labels), batch_size=8, shuffle=True
)
model = nn.Sequential(
    nn.Conv2d(3, 16, 3, stride=2), nn.ReLU(), nn.Conv2d(16, 32, 3, stride=2), nn.ReLU(),
    nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(32, 10),
)  # fmt: skip
criterion = nn.CrossEntropyLoss()
optimizer = torch.optim.SGD(model.parameters(), lr=0.001, momentum=0.9)
model.train()


def train(inputs: torch.Tensor, targets: torch.Tensor) -> None:
    loss = criterion(model(inputs), targets)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()


for batch in loader:  # the first steps are slower than the others
    train(*batch)

with profiler.profile(
    schedule=profiler.schedule(wait=1, warmup=1, active=3, repeat=1),
    on_trace_ready=profiler.tensorboard_trace_handler(str(options.out)),
    record_shapes=True,
    profile_memory=True,
    with_stack=True,
) as prof:
    for step, batch in enumerate(loader):
        prof.step()  # at the begin of each step
        if step >= 1 + 1 + 3:
            break
        train(*batch)
print(prof.key_averages().table(sort_by="self_cpu_time_total", row_limit=options.rows))
