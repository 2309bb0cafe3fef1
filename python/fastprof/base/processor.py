# SPDX-License-Identifier: Apache-2.0
"""processor_name: which processor this is."""

from __future__ import annotations

import platform
from functools import cache

__all__ = ["processor_name"]


@cache
def processor_name() -> str:
    """Return the model of the processor, or its architecture where the system does not tell the model. Any thread."""
    try:
        with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as file:
            for line in file:
                if line.startswith("model name"):
                    return line.partition(":")[2].strip()
    except OSError:
        pass  # another system
    return platform.processor() or platform.machine()
