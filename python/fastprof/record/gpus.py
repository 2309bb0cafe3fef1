# SPDX-License-Identifier: Apache-2.0
"""The GPUs that the activity CUDA means in this process: NVIDIA's, or AMD's, which PyTorch built for HIP calls CUDA."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from fastprof import _core
from fastprof.record import cuda, rocm

__all__ = ["GpuVendor", "gpu_vendor"]


class GpuVendor(NamedTuple):
    """A vendor's functions. Any thread.

    events: name of the backend that times ranges where kernels cannot be recorded. problem: why work cannot be
    collected, None if it can. members: members of a trace that describe the GPUs. register: registers the backends
    without loading a library. collect: begins to collect activity types.
    """

    events: str
    problem: Callable[[], str | None]
    members: Callable[[], dict[str, str]]
    register: Callable[[], None]
    collect: Callable[[tuple[str, ...]], _core.DeviceCollection]


_NVIDIA = GpuVendor(
    cuda.EVENTS, cuda.cuda_problem, cuda.cuda_members, cuda.register_cuda, cuda.collect_cuda
)
_AMD = GpuVendor(
    rocm.EVENTS, rocm.rocm_problem, rocm.rocm_members, rocm.register_rocm, rocm.collect_rocm
)


def gpu_vendor() -> GpuVendor:
    """Return whose GPUs the activity CUDA means now; it may change when PyTorch is imported. Any thread."""
    return _AMD if rocm.is_rocm() else _NVIDIA
