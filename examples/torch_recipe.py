# SPDX-License-Identifier: Apache-2.0
"""Find where a PyTorch model spends its time, following PyTorch's profiler recipe.

    python examples/torch_recipe.py [--torch] [--rows N] [--out FOLDER]

`--torch` uses torch.profiler instead of fastprof: only the import changes.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import torch
from torch import nn

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--torch", action="store_true", help="profile with torch.profiler")
parser.add_argument("--rows", type=int, default=10, help="rows of each table")
parser.add_argument("--out", type=Path, default=Path("build/demo"), help="folder for the trace")
options = parser.parse_args()
if options.torch:
    import torch.profiler as profiler
else:
    import fastprof as profiler

torch.manual_seed(0)
torch.set_num_threads(1)
model = nn.Sequential(
    nn.Conv2d(3, 16, 3, padding=1, bias=False), nn.BatchNorm2d(16), nn.ReLU(), nn.MaxPool2d(2),
    nn.Conv2d(16, 32, 3, padding=1, bias=False), nn.BatchNorm2d(32), nn.ReLU(), nn.AdaptiveAvgPool2d(1),
    nn.Flatten(), nn.Linear(32, 10),
)  # fmt: skip
images = torch.randn(5, 3, 64, 64)
model(images)

# 1. Time: a user range around the model; averages over all ops.
with profiler.profile(activities=[profiler.ProfilerActivity.CPU], record_shapes=True) as prof:
    with profiler.record_function("model_inference"):
        model(images)
print("Time by op")
print(prof.key_averages().table(sort_by="cpu_time_total", row_limit=options.rows))

# 2. The same, with one row per set of input shapes.
print("Time by op and input shapes")
print(
    prof.key_averages(group_by_input_shape=True).table(
        sort_by="cpu_time_total", row_limit=options.rows
    )
)

# 3. Memory that the ops allocate.
with profiler.profile(
    activities=[profiler.ProfilerActivity.CPU], profile_memory=True, record_shapes=True
) as prof:
    model(images)
print("Memory by op")
print(prof.key_averages().table(sort_by="self_cpu_memory_usage", row_limit=options.rows))

# 4. A trace for chrome://tracing or ui.perfetto.dev.
options.out.mkdir(parents=True, exist_ok=True)
prof.export_chrome_trace(str(options.out / "recipe.json"))

# 5. Python stacks of the ops that take the time.
with profiler.profile(activities=[profiler.ProfilerActivity.CPU], with_stack=True) as prof:
    with profiler.record_function("with_stack"):
        model(images)
print("Time by op and stack")
print(
    prof.key_averages(group_by_stack_n=2).table(
        sort_by="self_cpu_time_total", row_limit=options.rows
    )
)
prof.export_stacks(str(options.out / "recipe.stacks"), "self_cpu_time_total")


# 6. A long job: two cycles of one skipped step, one warm-up step and two recorded steps.
def trace_ready(prof: profiler.profile) -> None:
    print(f"Cycle ended at step {prof.step_num}")
    print(prof.key_averages().table(sort_by="self_cpu_time_total", row_limit=options.rows))
    prof.export_chrome_trace(str(options.out / f"recipe_{prof.step_num}.json"))


with profiler.profile(
    activities=[profiler.ProfilerActivity.CPU],
    schedule=profiler.schedule(wait=1, warmup=1, active=2, repeat=2),
    on_trace_ready=trace_ready,
) as prof:
    for _ in range(8):
        model(images)
        prof.step()
