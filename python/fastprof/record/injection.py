# SPDX-License-Identifier: Apache-2.0
"""Receive the ranges that this process and its children report through NVTX or ITT."""

from __future__ import annotations

import os

from fastprof import _paths
from fastprof.base import errors

__all__ = ["ITT_VARIABLE", "NVTX_VARIABLE", "is_ours", "receive_itt", "receive_nvtx"]

NVTX_VARIABLE = "NVTX_INJECTION64_PATH"
ITT_VARIABLE = "INTEL_LIBITTNOTIFY64"


def receive_nvtx(*, replace: bool = False) -> None:
    """Make NVTX hand its ranges to fastprof, in this process and in those that it starts from now on.

    They are then recorded by every profile that runs. NVTX looks for its tool once, at the first NVTX call of each
    binary that contains it: call this before (`fastprof run --nvtx` does). replace: take the place of another tool
    that the environment names, such as Nsight Systems; otherwise errors.StateError names it.
    errors.UnavailableError if this installation has no injection library. Call from the thread that
    changes os.environ.

        fastprof.receive_nvtx()
        import nvtx
        with fastprof.profile() as profiler, nvtx.annotate("load", color="green"): ...
    """
    _receive("NVTX", NVTX_VARIABLE, "receive_nvtx", replace)


def receive_itt(*, replace: bool = False) -> None:
    """Make ITT hand its tasks to fastprof: as receive_nvtx(), for the other interface.

    replace: take the place of another collector that the environment names, such as VTune. Any thread.
    """
    _receive("ITT", ITT_VARIABLE, "receive_itt", replace)


def is_ours(path: str) -> bool:
    """Return whether an environment variable's path is fastprof's injection library."""
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
    if other and not is_ours(other) and not replace:
        raise errors.StateError(
            f"{variable} names another tool, {other}, which gets the {kind} ranges. Unset the variable,"
            f" or call fastprof.{function}(replace=True) to take its place."
        )
    os.environ[variable] = library
