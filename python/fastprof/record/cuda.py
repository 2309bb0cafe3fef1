# SPDX-License-Identifier: Apache-2.0
"""Whether work on CUDA devices can be collected in this process, and where NVIDIA's libraries may lie."""

from __future__ import annotations

import importlib.util
import os
from functools import lru_cache
from pathlib import Path

from fastprof import _core

__all__ = ["EVENTS", "cuda_problem", "register_cuda"]

# The backend that times ranges by CUDA events, where CUPTI cannot be used.
EVENTS = "CUDA events"

# What exists where NVIDIA's driver is loaded, under Linux and under Windows' Linux.
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
_CHOSEN = "FASTPROF_CUPTI_LIBRARY"
_CHOSEN_RUNTIME = "FASTPROF_CUDART_LIBRARY"


def cuda_problem() -> str | None:
    """Return why work on CUDA devices cannot be collected, and what would help; None if it can.

    It can if CUPTI accepts us or, failing that, if ranges can be timed by CUDA events. Costs nothing where
    NVIDIA's driver is not installed; else the first call loads libcupti (about 20 ms). The answer may
    change: another tool may have CUPTI for a while. Any thread.
    """
    chosen = os.environ.get(_CHOSEN)
    if chosen == "":
        return f"CUDA is switched off by {_CHOSEN}, which is empty"
    named = chosen is not None or os.environ.get(_CHOSEN_RUNTIME)
    if not named and not any(map(os.path.exists, _DRIVER_FILES)):
        return "NVIDIA's driver is not installed, so work on CUDA devices is not recorded"
    register_cuda()
    problem = _core.device_problem("CUDA")
    if not problem or not _core.device_problem(EVENTS):
        return None
    return f"work on CUDA devices is not recorded: {problem}"


@lru_cache(maxsize=1)
def register_cuda() -> None:
    """Register both backends and the exclusive profiler's support of CUDA. Loads nothing. Any thread."""
    _core.register_cuda(_libraries(_CUPTI_IN_PACKAGES))
    _core.register_cuda_events(_libraries(_CUDART_IN_PACKAGES))


def _libraries(names: tuple[str, ...]) -> list[str]:
    """Return the files of these names in NVIDIA's packages, in their order."""
    spec = importlib.util.find_spec("nvidia")
    folders = list(spec.submodule_search_locations or ()) if spec is not None else []
    return [
        str(Path(folder, name))
        for name in names
        for folder in folders
        if Path(folder, name).exists()
    ]
