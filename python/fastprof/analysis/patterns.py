# SPDX-License-Identifier: Apache-2.0
"""Anti-patterns of training code, each with its events, stack, count and estimated gain.

A new pattern is a function from NamedRows to (rows of the events, estimated gain in ns), with an entry in PATTERNS.
Patterns read columns; Python loops run only over the candidates of a pattern. Any thread.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

from numpy.typing import NDArray

from fastprof.analysis import op_patterns as ops
from fastprof.analysis import wait_patterns as waits
from fastprof.analysis.evaluation import table_of
from fastprof.analysis.named_rows import NamedRows

__all__ = ["PATTERNS", "Finding", "Pattern", "find_anti_patterns"]

Array: TypeAlias = NDArray[Any]
_SHOWN = 10  # events listed in a finding's dict
_GUIDE = "https://pytorch.org/tutorials/recipes/recipes/tuning_guide.html"


class Pattern(NamedTuple):
    """An anti-pattern. name, description: PyTorch's where it has the pattern. gain: how the gain is estimated.

    find: returns (rows of the events, estimated gain in ns). url: PyTorch's advice.
    """

    name: str
    description: str
    gain: str
    find: Callable[[NamedRows], tuple[Array, float]]
    url: str = ""


PATTERNS = (
    Pattern(
        "Extra CUDA Copy Pattern",
        "Filled a CPU tensor and immediately moved it to GPU. Please initialize it on GPU.",
        "time of the moves",
        ops.extra_copies,
        _GUIDE + "#create-tensors-directly-on-the-target-device",
    ),
    Pattern(
        "For Loop Indexing Pattern",
        "For loop indexing detected. Vectorization recommended.",
        "time of the loop's ops but one round",
        ops.loop_indexing,
    ),
    Pattern(
        "FP32 MatMul Pattern",
        "Matrix products ran in full fp32 on the GPU. Allow TF32 by torch.backends.cuda.matmul.allow_tf32 = True.",
        "half of these kernels' time",
        ops.fp32_matmul,
        "https://pytorch.org/docs/stable/notes/cuda.html#tensorfloat-32-tf32-on-ampere-devices",
    ),
    Pattern(
        "Optimizer Single Tensor Pattern",
        "Detected optimizer running with single tensor implementation. "
        "Please enable multi tensor implementation by passing 'foreach=True' into optimizer.",
        "half of the update's time",
        ops.single_tensor_optimizer,
    ),
    Pattern(
        "Synchronized DataLoader Pattern",
        "Detected DataLoader running with synchronized implementation. "
        "Please enable asynchronous dataloading by setting num_workers > 0 when initializing DataLoader.",
        "time in which the loop loads data itself",
        waits.synchronous_loader,
        _GUIDE + "#enable-async-data-loading-and-augmentation",
    ),
    Pattern(
        "Gradient Set To Zero Instead of None Pattern",
        "Detected gradient set to zero instead of None. "
        "Please add 'set_to_none=True' when calling zero_grad().",
        "time of the zeroing ops",
        ops.zeroed_gradients,
        _GUIDE,
    ),
    Pattern(
        "Enabling Bias in Conv2d Followed By BatchNorm Pattern",
        "Detected bias enabled in Conv2d that is followed by BatchNorm2d. Please set 'bias=False' in Conv2d.",
        "3 % of the convolutions' time",
        ops.conv_bias,
        _GUIDE + "#disable-bias-for-convolutions-directly-followed-by-a-batch-norm",
    ),
    Pattern(
        "Matrix Multiplication Dimension Not Aligned Pattern",
        "Detected matmul with dimension not aligned. Please use matmul with aligned dimension.",
        "half of these products' device time",
        ops.misaligned_half,
        _GUIDE + "#use-mixed-precision-and-amp",
    ),
    Pattern(
        "Host Synchronization Pattern",
        "The host waits for the device (.item(), .cpu(), nonzero, synchronize). Keep values on the device, or read "
        "them every few steps.",
        "time of the waiting calls",
        waits.host_syncs,
    ),
    Pattern(
        "Many Tiny Ops Pattern",
        "Many ops are so short that their dispatch dominates. Fuse them, for example by torch.compile.",
        "dispatch time of three of four of them",
        ops.tiny_ops,
    ),
    Pattern(
        "Allocator Churn Pattern",
        "Device memory is allocated and freed by the driver again and again. Keep sizes equal, or set "
        "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True.",
        "time of the driver's calls",
        waits.allocator_churn,
    ),
)


@dataclass(frozen=True)
class Finding:
    """A pattern that was found. events: its rows in `rows`. gain_ns: estimated, over the whole recording."""

    pattern: Pattern
    rows: NamedRows
    events: Array
    gain_ns: int

    @property
    def count(self) -> int:
        """Number of events."""
        return len(self.events)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values: what was found, with its first events."""
        shown = [int(row) for row in self.events[:_SHOWN]]
        return {
            "name": self.pattern.name,
            "message": self.pattern.description,
            "url": self.pattern.url,
            "count": self.count,
            "estimated_gain_ns": self.gain_ns,
            "estimated_as": self.pattern.gain,
            "events": [
                {
                    "row": self.rows.tree.table_row(row),
                    "name": self.rows.name(row),
                    "start_ns": int(self.rows.start[row]),
                    "duration_ns": int(self.rows.end[row] - self.rows.start[row]),
                    "stack": self.rows.stack(row),
                }
                for row in shown
            ],
        }


def find_anti_patterns(prof: Any, *, rows: NamedRows | None = None) -> list[Finding]:
    """Return the anti-patterns of a profile or table, by estimated gain, largest first.

    prof: a profile that has ended, an EventList, or a table from fastprof.load(). Most patterns require ops;
    some require shapes (record_shapes=True) or Python calls (with_stack=True), and are not found without them.
    rows: NamedRows of the same table if the caller has them. Raises errors.ValueError for another `prof`.

        for found in find_anti_patterns(prof):
            print(found.pattern.name, found.count, found.gain_ns)
    """
    if rows is None:
        rows = NamedRows(table_of(prof))
    found = []
    for pattern in PATTERNS:
        events, gain = pattern.find(rows)
        if len(events):
            found.append(Finding(pattern, rows, events, round(gain)))
    return sorted(found, key=lambda finding: -finding.gain_ns)
