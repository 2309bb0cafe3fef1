# SPDX-License-Identifier: Apache-2.0
"""Hand-made captures, and a wrapper that hides the native kernels: NumPy's results for it are the oracle."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from fastprof import _core
from fastprof.model.columns import EventFlag
from fastprof.model.sites import Site

__all__ = ["WithoutKernels", "capture_of"]


def capture_of(
    sites: Sequence[Site], payload: Sequence[int], words: Sequence[int], **columns: Any
) -> _core.Capture:
    """Return a capture of finished rows of 5 ns, 10 ns apart, with this payload. columns: replacements of the defaults.

    Unless replaced, site and track are 0. There are two tracks.
    """
    size = len(payload)
    given: dict[str, Any] = {
        "start_ns": np.arange(size) * 10,
        "site": np.zeros(size),
        "track": np.zeros(size),
        "parent": np.full(size, -1),
        "payload": payload,
        "kind": np.zeros(size),
        "flags": np.full(size, int(EventFlag.FINISHED)),
        "payload_words": np.array(words, np.uint64),
        "cross_thread_end_row": [],
        "cross_thread_end_track": [],
        **columns,
    }
    given.setdefault("end_ns", np.asarray(given["start_ns"]) + 5)
    return _core.capture_of(
        columns=given,
        sites=[tuple(site) for site in sites],
        tracks=[(1, 1, 11, "a", True), (2, 1, 12, "b", True)],
        strings=[],
        t0_ns=0,
        t1_ns=10**6,
        clock_error_ns=0,
        pid=1,
        process_name="test",
        dropped={},
    )


class WithoutKernels:
    """A capture without the methods that find detail blocks natively, so that NumPy finds them."""

    def __init__(self, capture: Any) -> None:
        self._capture = capture

    def __getattr__(self, name: str) -> Any:
        if name in ("find_blocks", "flops_of", "read_details"):
            raise AttributeError(name)
        return getattr(self._capture, name)
