# SPDX-License-Identifier: Apache-2.0
"""Facts about this machine and Python, shown in the summary of a report that the profiled process writes."""

from __future__ import annotations

import os
import platform
import sys

from fastprof._version import __version__
from fastprof.base.processor import processor_name

__all__ = ["machine_facts"]


def machine_facts() -> dict[str, str]:
    """Return label -> text: machine, processor, system, Python, torch if loaded, command, fastprof."""
    facts = {
        "machine": platform.node(),
        "processor": f"{processor_name()}, {os.cpu_count() or 1} CPUs",
        "system": platform.platform(terse=True),
        "Python": platform.python_version(),
    }
    torch = sys.modules.get("torch")
    if torch is not None:
        facts["torch"] = str(getattr(torch, "__version__", ""))
    facts["command"] = " ".join(sys.argv)
    facts["fastprof"] = __version__
    return {label: text for label, text in facts.items() if text}
