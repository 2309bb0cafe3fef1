# SPDX-License-Identifier: Apache-2.0
"""Whether work on CUDA devices can be collected in this process, and where to look for NVIDIA's libraries."""

from __future__ import annotations

import importlib.util
import os
import sys
from functools import lru_cache
from pathlib import Path

from fastprof import _core
from fastprof.base import errors

__all__ = [
    "EVENTS",
    "collect_cuda",
    "cuda_members",
    "cuda_problem",
    "cupti_candidates",
    "load_cupti",
    "may_have_cuda",
    "register_cuda",
    "shares_cupti",
    "torch_profiler_records",
]

# Name of the backend that times ranges by CUDA events if CUPTI cannot be used.
EVENTS = "CUDA events"

# Files that exist if NVIDIA's driver is loaded: on Linux, and in the Windows Subsystem for Linux.
_DRIVER_FILES = ("/dev/nvidiactl", "/proc/driver/nvidia/version", "/dev/dxg")
# Libraries in NVIDIA's packages for Python, by version of CUDA.
_CUPTI_IN_PACKAGES = (
    "cu13/lib/libcupti.so.13",
    "cuda_cupti/lib/libcupti.so.12",
    "cuda_cupti/lib/libcupti.so.11.8",
)
_CUDART_IN_PACKAGES = (
    "cu13/lib/libcudart.so.13",
    "cuda_runtime/lib/libcudart.so.12",
    "cuda_runtime/lib/libcudart.so.11.0",
)
# Set by Nsight and other tools that are injected into the process.
_INJECTIONS = (
    "CUDA_INJECTION64_PATH",
    "NSYS_PROFILING_SESSION_ID",
    "NV_NSIGHT_INJECTION_TRANSPORT_TYPE",
)
_CUPTI_VARIABLE = "FASTPROF_CUPTI_LIBRARY"
_CUDART_VARIABLE = "FASTPROF_CUDART_LIBRARY"


def cuda_problem() -> str | None:
    """Return why work on CUDA devices cannot be collected and how to fix it; None if it can be collected.

    It can if CUPTI is usable or, failing that, if ranges can be timed by CUDA events. Costs nothing if
    NVIDIA's driver is not installed; else the first call loads libcupti (about 20 ms). The answer may
    change, because another tool may use CUPTI for a while. Any thread.
    """
    chosen = os.environ.get(_CUPTI_VARIABLE)
    if chosen == "":
        return f"CUDA is switched off, because {_CUPTI_VARIABLE} is empty: unset it"
    if not may_have_cuda():
        return "NVIDIA's driver is not installed, so work on CUDA devices is not recorded"
    register_cuda()
    problem = _core.device_problem("CUDA")
    if not problem or not _core.device_problem(EVENTS):
        return None
    return f"work on CUDA devices is not recorded: {problem}"


def cuda_members() -> dict[str, str]:
    """Return the members of a trace that say which GPUs and libraries of NVIDIA's there are: name -> JSON text.

    Names and values are those of Kineto's traces. Empty where CUDA was not used. Any thread.
    """
    return dict(_core.cuda_members(cupti_candidates())) if may_have_cuda() else {}


def torch_profiler_records() -> bool:
    """Return whether torch.profiler is recording in this process, and so uses CUPTI. Any thread."""
    kind = getattr(sys.modules.get("torch._C._autograd"), "_profiler_type", None)
    return kind is not None and "KINETO" in str(kind())


def shares_cupti() -> bool:
    """Return whether CUPTI may be used although another client has subscribed to it.

    torch.profiler keeps its subscription after its first profile until the process ends, and registers itself again
    for each of its profiles, so it may be bypassed while it does not record. Nsight and tools that are injected may
    not. Any thread.
    """
    if any(os.environ.get(name) for name in _INJECTIONS):
        return False
    torch = sys.modules.get("torch")
    version = getattr(getattr(torch, "version", None), "cuda", None)
    return version is not None and not torch_profiler_records()


def collect_cuda(types: tuple[str, ...]) -> _core.DeviceCollection:
    """Begin to collect by CUPTI; errors.UnavailableError if its other client is recording, or it refuses."""
    if torch_profiler_records():
        raise errors.UnavailableError(
            "work on CUDA devices cannot be collected: torch.profiler is recording in this process, and CUPTI delivers"
            " to one of the two. End that profile before this one begins"
        )
    return _core.DeviceCollection("CUDA", list(types), shares_cupti())


def load_cupti() -> None:
    """Load libcupti where NVIDIA's driver is installed, without becoming its client; once, about 20 ms.

    The injection library asks the loaded one which stream a handle is. Any thread.
    """
    if may_have_cuda():
        _core.load_cupti(cupti_candidates())


def cupti_candidates() -> list[str]:
    """Return the paths of libcupti in NVIDIA's Python packages, the newest version first. Any thread."""
    return _libraries(_CUPTI_IN_PACKAGES)


def may_have_cuda() -> bool:
    """Return whether the driver is installed or the environment names a library, as tests do. Any thread."""
    named = os.environ.get(_CUPTI_VARIABLE) is not None or os.environ.get(_CUDART_VARIABLE)
    return bool(named) or any(map(os.path.exists, _DRIVER_FILES))


@lru_cache(maxsize=1)
def register_cuda() -> None:
    """Register both CUDA backends and the exclusive profiler's CUDA stubs. Loads no library. Any thread."""
    _core.register_cuda(cupti_candidates())
    _core.register_cuda_events(_libraries(_CUDART_IN_PACKAGES))


def _libraries(names: tuple[str, ...]) -> list[str]:
    """Return the paths of these files in NVIDIA's Python packages, in the given order."""
    spec = importlib.util.find_spec("nvidia")
    folders = list(spec.submodule_search_locations or ()) if spec is not None else []
    return [
        str(Path(folder, name))
        for name in names
        for folder in folders
        if Path(folder, name).exists()
    ]
