# SPDX-License-Identifier: Apache-2.0
"""AMD's GPUs, which PyTorch built for HIP calls CUDA: whether the activity CUDA means them, and what is recorded."""

from __future__ import annotations

import os
import sys
from functools import lru_cache
from importlib.machinery import PathFinder
from pathlib import Path

from fastprof import _core
from fastprof.record.cuda import may_have_cuda

__all__ = [
    "BACKEND",
    "EVENTS",
    "collect_rocm",
    "has_amd_driver",
    "is_rocm",
    "register_rocm",
    "rocm_members",
    "rocm_problem",
]

# Name of the backend that records by rocprofiler-sdk, and of the one that times ranges by events where it cannot.
BACKEND, EVENTS = "ROCm", "HIP events"

# Exists if AMD's kernel driver serves compute work.
_DRIVER_FILE = "/dev/kfd"
_ROCPROFILER_VARIABLE = "FASTPROF_ROCPROFILER_LIBRARY"
_HIP_VARIABLE = "FASTPROF_HIP_LIBRARY"
# Packages for Python that contain ROCm's libraries, and their folder.
_PACKAGES = (("torch", "lib"), ("_rocm_sdk_core", "lib"))


def is_rocm() -> bool:
    """Return whether CUDA means AMD's GPUs in this process. Any thread.

    It does if the imported PyTorch is built for HIP; without PyTorch, or with one for the CPU, if AMD's driver is
    installed and NVIDIA's is not, or if the environment names a library of ROCm.
    """
    version = getattr(sys.modules.get("torch"), "version", None)
    if getattr(version, "hip", None) is not None:
        return True
    if getattr(version, "cuda", None) is not None:
        return False
    return _names_library() or (has_amd_driver() and not may_have_cuda())


def has_amd_driver() -> bool:
    """Return whether AMD's kernel driver for compute work is installed. Any thread."""
    return os.path.exists(_DRIVER_FILE)


def rocm_problem() -> str | None:
    """Return why work on AMD's GPUs cannot be collected, and what to do; None if it can be collected.

    It can if rocprofiler-sdk is usable or, failing that, if ranges can be timed by HIP events. The first call registers
    this process with rocprofiler-sdk, which accepts that only before HIP starts. Any thread.
    """
    hip = getattr(getattr(sys.modules.get("torch"), "version", None), "hip", None)
    prefix = "work on AMD's GPUs" if hip is None else f"work of this PyTorch, built for HIP {hip},"
    if os.environ.get(_ROCPROFILER_VARIABLE) == "" and os.environ.get(_HIP_VARIABLE) == "":
        return f"{prefix} is not recorded, because {_ROCPROFILER_VARIABLE} and {_HIP_VARIABLE} are empty: unset them"
    if not has_amd_driver() and not _names_library():
        return (
            f"{prefix} is not recorded: AMD's driver is not installed ({_DRIVER_FILE}). In a container, pass"
            " --device=/dev/kfd --device=/dev/dri"
        )
    register_rocm()
    problem = _core.device_problem(BACKEND)
    if not problem or not (events := _core.device_problem(EVENTS)):
        return None
    return f"{prefix} is not recorded: {problem}. Ranges cannot be timed by HIP events either: {events}"


def rocm_members() -> dict[str, str]:
    """Return the members of a trace that say which GPUs and versions of AMD's there are: name -> JSON text.

    Names and values are those of Kineto's traces. Empty where rocprofiler-sdk was not used. Any thread.
    """
    return dict(_core.rocm_members())


@lru_cache(maxsize=1)
def register_rocm() -> None:
    """Register both backends and the exclusive profiler's stubs. Loads no library. Any thread."""
    _core.register_rocm(
        _libraries("librocprofiler-sdk.so.1", "librocprofiler-sdk.so"),
        _libraries("libamdhip64.so.7", "libamdhip64.so"),
    )


def collect_rocm(types: tuple[str, ...]) -> _core.DeviceCollection:
    """Begin to collect by rocprofiler-sdk; errors.UnavailableError if it refuses."""
    return _core.DeviceCollection(BACKEND, list(types))


def _names_library() -> bool:
    return bool(os.environ.get(_ROCPROFILER_VARIABLE) or os.environ.get(_HIP_VARIABLE))


def _libraries(*names: str) -> list[str]:
    """Return the paths of these files in ROCm's packages for Python."""
    folders = []
    for package, below in _PACKAGES:
        spec = PathFinder.find_spec(package)
        folders += [Path(each, below) for each in (spec and spec.submodule_search_locations) or ()]
    return [str(folder / name) for folder in folders for name in names if (folder / name).exists()]
