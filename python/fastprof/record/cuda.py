# SPDX-License-Identifier: Apache-2.0
"""Whether work on CUDA devices can be collected in this process, and where NVIDIA's libraries may lie."""

from __future__ import annotations

import importlib.util
import os
from functools import lru_cache
from pathlib import Path

from fastprof import _core

__all__ = ["cuda_problem"]

# What exists where NVIDIA's driver is loaded, under Linux and under Windows' Linux.
_DRIVER_FILES = ("/dev/nvidiactl", "/proc/driver/nvidia/version", "/dev/dxg")
# libcupti in NVIDIA's packages for Python, by version of CUDA.
_IN_PACKAGES = (
    "cu13/lib/libcupti.so.13",
    "cuda_cupti/lib/libcupti.so.12",
    "cuda_cupti/lib/libcupti.so.11.8",
)
_CHOSEN = "FASTPROF_CUPTI_LIBRARY"


def cuda_problem() -> str | None:
    """Return why work on CUDA devices cannot be collected, and what would help; None if it can.

    Costs nothing where NVIDIA's driver is not installed; else the first call loads libcupti (about
    20 ms). The answer may change: another tool may have CUPTI for a while. Any thread.
    """
    chosen = os.environ.get(_CHOSEN)
    if chosen == "":
        return f"CUDA is switched off by {_CHOSEN}, which is empty"
    if chosen is None and not any(map(os.path.exists, _DRIVER_FILES)):
        return "NVIDIA's driver is not installed, so work on CUDA devices is not recorded"
    _register()
    problem = _core.device_problem("CUDA")
    return f"work on CUDA devices is not recorded: {problem}" if problem else None


@lru_cache(maxsize=1)
def _register() -> None:
    _core.register_cuda(_libraries())


def _libraries() -> list[str]:
    """Return the files of libcupti in NVIDIA's packages, newest CUDA first."""
    spec = importlib.util.find_spec("nvidia")
    folders = list(spec.submodule_search_locations or ()) if spec is not None else []
    return [
        str(Path(folder, name))
        for name in _IN_PACKAGES
        for folder in folders
        if Path(folder, name).exists()
    ]
