# SPDX-License-Identifier: Apache-2.0
"""Find and fix a slow part of a module with ranges, as in PyTorch's recipe on profiling a module.

    python examples/torch_module.py [--torch] [--rows N]

`--torch` uses torch.autograd.profiler instead of fastprof: only the import changes.
"""

from __future__ import annotations

import argparse

import torch
from torch import nn

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--torch", action="store_true", help="profile with torch.autograd.profiler")
parser.add_argument("--rows", type=int, default=6, help="rows of each table")
options = parser.parse_args()
if options.torch:
    import torch.autograd.profiler as profiler
else:
    import fastprof as profiler

torch.manual_seed(0)
torch.set_num_threads(1)


class Slow(nn.Module):
    """A linear layer, and a Python loop that finds the mask values above the mean of its row sums."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.linear = nn.Linear(width, width)

    def forward(self, x: torch.Tensor, mask: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        with profiler.record_function("linear pass"):
            out = self.linear(x)
        with profiler.record_function("places of the mask"):
            threshold = out.sum(dim=1).mean().item()
            places = torch.tensor([i for i, value in enumerate(mask.tolist()) if value > threshold])
        return out, places


class Fast(Slow):
    """The same, with one op instead of the Python loop."""

    def forward(self, x: torch.Tensor, mask: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        with profiler.record_function("linear pass"):
            out = self.linear(x)
        with profiler.record_function("places of the mask"):
            threshold = out.sum(dim=1).mean()
            places = torch.nonzero(mask > threshold).flatten()
        return out, places


x, mask = torch.randn(64, 128), torch.randn(20_000)
for module in (Slow(128), Fast(128)):
    module(x, mask)  # warm up
    with profiler.profile(with_stack=True, profile_memory=True) as prof:
        module(x, mask)
    print(type(module).__name__)
    print(
        prof.key_averages(group_by_stack_n=5).table(
            sort_by="self_cpu_time_total", row_limit=options.rows
        )
    )
