# SPDX-License-Identifier: Apache-2.0
"""Receive the ranges that this process and its children report through NVTX or ITT."""

from __future__ import annotations

import os

from fastprof import _paths
from fastprof.base import errors

__all__ = ["ITT_VARIABLE", "NVTX_VARIABLE", "is_injection_library", "receive_itt", "receive_nvtx"]

NVTX_VARIABLE = "NVTX_INJECTION64_PATH"
ITT_VARIABLE = "INTEL_LIBITTNOTIFY64"


def receive_nvtx(*, replace: bool = False) -> None:
    """Make NVTX pass its ranges to fastprof, in this process and in those that it starts from now on.

    Every running profile then records them. NVTX looks for a tool once, at the first NVTX call of each binary
    that contains NVTX, so call this before (`fastprof run --nvtx` does). It sets the environment variable
    NVTX_INJECTION64_PATH; call it on a thread that may change os.environ.

    replace: replace another tool that the environment names, such as Nsight Systems. Without it, another tool
    raises errors.StateError. Raises errors.UnavailableError if this installation has no injection library.

        fastprof.receive_nvtx()
        import nvtx
        with fastprof.profile() as profiler, nvtx.annotate("load", color="green"): ...
    """
    _receive("NVTX", NVTX_VARIABLE, "receive_nvtx", replace)
    # Naming the function must not load the native part.
    from fastprof.record.cuda import load_cupti

    load_cupti()  # handles of streams can be understood from now on


def receive_itt(*, replace: bool = False) -> None:
    """Make ITT pass its tasks to fastprof; like receive_nvtx(), with the variable INTEL_LIBITTNOTIFY64.

    replace: replace another collector that the environment names, such as VTune. Errors and thread rule are
    those of receive_nvtx().
    """
    _receive("ITT", ITT_VARIABLE, "receive_itt", replace)


def is_injection_library(path: str) -> bool:
    """Return whether a path, such as the value of an environment variable, is fastprof's injection library."""
    try:
        return os.path.samefile(path, _paths.injection_library())
    except OSError:
        return False


def _receive(kind: str, variable: str, function: str, replace: bool) -> None:
    try:
        library = str(_paths.injection_library())
    except FileNotFoundError as missing:
        raise errors.UnavailableError(f"{kind} ranges cannot be received: {missing}") from None
    other = os.environ.get(variable, "")
    if other and not is_injection_library(other) and not replace:
        raise errors.StateError(
            f"{variable} names another tool, {other}, which receives the {kind} ranges. Unset the variable,"
            f" or call fastprof.{function}(replace=True) to replace the tool."
        )
    os.environ[variable] = library
