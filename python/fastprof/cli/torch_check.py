# SPDX-License-Identifier: Apache-2.0
"""The torch check of `fastprof doctor`: records a small profile of torch in a separate process."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

__all__ = ["torch_findings"]

_LIMIT_S = 120

# Program that prints one line of JSON. It reads the cache of layouts but does not write it.
_TRIAL = """
import json
import torch
import fastprof
from fastprof.adapters.torch import headers as torch_headers
torch_headers._write_cache = lambda cache, contents: "not kept"
with fastprof.profile(record_shapes=True, profile_memory=True) as p:
    with torch.inference_mode():
        torch.empty(1000, dtype=torch.uint8, device="cpu").add(2)
adds = [event for event in p.events() if event.name == "aten::add"]
print(json.dumps({
    "version": str(torch.__version__),
    "missing": p.missing,
    "ops": len(adds) == 1,
    "shapes": bool(adds and adds[0].input_shapes),
    "memory": bool(adds and adds[0].cpu_memory_usage),
}))
"""
# Recorded part -> key in profile.missing with the reason if it is not recorded.
_PARTS = {
    "ops": "torch_ops",
    "shapes": "record_shapes",
    "memory": "profile_memory",
    "fast ranges": "torch_fast_ranges",
}


def torch_findings(version: str) -> Iterator[tuple[bool, str]]:
    """Yield (is recorded, text): one line for all recorded parts, one per part that is not recorded.

    version: of the installed package, for the message if it cannot be imported. Takes seconds, because
    another process imports torch. Never raises.
    """
    here = str(Path(__file__).resolve().parents[2])
    path = os.pathsep.join(filter(None, (here, os.environ.get("PYTHONPATH", ""))))
    command = [sys.executable, "-W", "ignore", "-c", _TRIAL]
    last_line = ""
    try:
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_LIMIT_S,
            env={**os.environ, "PYTHONPATH": path},
        )
        last_line = done.stderr.strip().rpartition("\n")[2]
        result = json.loads(done.stdout.strip().rpartition("\n")[2])
    except subprocess.TimeoutExpired:
        yield False, f"{version}: the test profile in a separate process exceeded {_LIMIT_S} s"
        return
    except (OSError, ValueError) as error:
        yield (
            False,
            f"{version}: the test profile in a separate process failed: {last_line or error}",
        )
        return
    missing = result["missing"]
    lost = {
        part: missing.get(key, "absent from a test profile")
        for part, key in _PARTS.items()
        if key in missing or result.get(part) is False
    }
    if "ops" in lost:  # the other parts depend on ops
        lost = {"ops": lost["ops"]}
        recorded = []
    else:
        recorded = [part for part in _PARTS if part not in lost]
    if recorded:
        yield True, f"{result['version']}: {', '.join(recorded)} are recorded (tested)"
    for part, reason in lost.items():
        yield False, f"{result['version']}: {part} are not recorded: {reason}"
