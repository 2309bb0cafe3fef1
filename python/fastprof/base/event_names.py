# SPDX-License-Identifier: Apache-2.0
"""Names of events that several analyses know."""

from __future__ import annotations

__all__ = ["DEVICE_WORK", "OPTIMIZER_STEP", "is_communication"]

# Categories of what runs on a device, as in Kineto's traces.
DEVICE_WORK = ("kernel", "gpu_memcpy", "gpu_memset")
# What names of ranges begin with that torch's optimizers make around each of their steps.
OPTIMIZER_STEP = "Optimizer.step#"


def is_communication(name: str) -> bool:
    """Return whether a kernel's name is one of NCCL or RCCL: "ncclDevKernel_AllReduce_Sum_f32_RING_LL(...)"."""
    lowered = name.lower()
    return "nccl" in lowered or "rccl" in lowered
