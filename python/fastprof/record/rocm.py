# SPDX-License-Identifier: Apache-2.0
"""AMD's GPUs, which PyTorch built for HIP calls CUDA: whether the activity CUDA means them, and what is recorded."""

from __future__ import annotations

import os
import sys

__all__ = ["has_amd_driver", "is_rocm", "rocm_problem"]

# Exists if AMD's kernel driver serves compute work.
_DRIVER_FILE = "/dev/kfd"


def is_rocm() -> bool:
    """Return whether CUDA means AMD's GPUs in this process: the imported PyTorch is built for HIP. Any thread."""
    return _hip_version() is not None


def has_amd_driver() -> bool:
    """Return whether AMD's kernel driver for compute work is installed. Any thread."""
    return os.path.exists(_DRIVER_FILE)


def rocm_problem() -> str | None:
    """Return why work on AMD's GPUs cannot be collected, and what to do; None if it can be collected. Any thread."""
    return (
        f"this PyTorch is built for HIP {_hip_version()}, whose work on AMD's GPUs is not recorded. Ops, ranges and"
        " calls on the host are: pass activities=[ProfilerActivity.CPU]. For kernels, use torch.profiler or rocprofv3"
    )


def _hip_version() -> str | None:
    """Return the version of HIP for which the imported PyTorch is built; None for another one, or without PyTorch."""
    version = getattr(sys.modules.get("torch"), "version", None)
    hip = getattr(version, "hip", None)
    return None if hip is None else str(hip)
