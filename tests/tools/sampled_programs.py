# SPDX-License-Identifier: Apache-2.0
"""Sample functions of this process, and let one use CPU time."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest

import fastprof


def sampled(function: Callable[[], Any], hz: float = 1000, **options: Any) -> fastprof.profile:
    """Return a profile of a call with samples. Skips the test where none can be taken."""
    with fastprof.profile(sample_hz=hz, **options) as prof:
        function()
    if "sample_hz" in prof.missing and prof._results[-1].samples is None:
        pytest.skip(prof.missing["sample_hz"])
    return prof


def spin(seconds: float) -> None:
    """Use CPU time of this thread."""
    until = time.thread_time() + seconds
    while time.thread_time() < until:
        pass
