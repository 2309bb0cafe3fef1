# SPDX-License-Identifier: Apache-2.0
"""What names, categories and numbers in shards mean. Imports little, so that reading a job does not, either."""

from __future__ import annotations

import re

__all__ = [
    "HOST_COLLECTIVE",
    "NO_WAIT",
    "PLACE",
    "STEP_SHIFT",
    "SYNC",
    "UNMATCHED",
    "is_host_collective",
    "sequence_text",
]

SYNC = "cuda_sync"
NO_WAIT = -2  # in waits_for, of rows that are no waits
UNMATCHED = -1  # sequence number of a collective whose group or number is unknown
STEP_SHIFT = 20  # a number made of step and place in it: PLACE | step << 20 | place
PLACE = 1 << 62
HOST_COLLECTIVE = re.compile(r"^(gloo|ucc|mpi|xccl|hccl):(\w+)$")


def sequence_text(number: int) -> str:
    """Return a sequence number as a reader knows it: "3 of step 7" for a place in the order of issue."""
    if number < PLACE:
        return str(number)
    step, place = divmod(number - PLACE, 1 << STEP_SHIFT)
    return f"{place} of step {step}"


def is_host_collective(name: str) -> bool:
    """Return whether a range of the host is a collective: "gloo:all_reduce"."""
    return HOST_COLLECTIVE.match(name) is not None
