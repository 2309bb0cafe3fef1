# SPDX-License-Identifier: Apache-2.0
"""What fastprof doctor says of torch: a small profile is made of it, in a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

__all__ = ["torch_findings"]

_LIMIT_S = 120

# Prints one line of JSON. The cache of layouts is read and not written: doctor changes nothing.
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
# What is recorded, and where profile.missing says why it is not.
_PARTS = {
    "ops": "torch_ops",
    "shapes": "record_shapes",
    "memory": "profile_memory",
    "fast ranges": "torch_fast_ranges",
}


def torch_findings(version: str) -> Iterator[tuple[bool, str]]:
    """(Whether it is recorded, text): one line for all that is, one for each thing that is not.

    version: of the installed package, for the case that it cannot be imported. Seconds, as torch is
    imported by another process; never raises.
    """
    here = str(Path(__file__).resolve().parents[2])
    path = os.pathsep.join(filter(None, (here, os.environ.get("PYTHONPATH", ""))))
    command = [sys.executable, "-W", "ignore", "-c", _TRIAL]
    said = ""
    try:
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_LIMIT_S,
            env={**os.environ, "PYTHONPATH": path},
        )
        said = done.stderr.strip().rpartition("\n")[2]
        told = json.loads(done.stdout.strip().rpartition("\n")[2])
    except subprocess.TimeoutExpired:
        yield False, f"{version}: a trial in another process took over {_LIMIT_S} s and was ended"
        return
    except (OSError, ValueError) as error:
        yield False, f"{version}: a trial in another process failed: {said or error}"
        return
    missing = told["missing"]
    lost = {
        part: missing.get(key, "a trial has none")
        for part, key in _PARTS.items()
        if key in missing or told.get(part) is False
    }
    if "ops" in lost:  # the others come with them
        lost = {"ops": lost["ops"]}
        recorded = []
    else:
        recorded = [part for part in _PARTS if part not in lost]
    if recorded:
        yield True, f"{told['version']}: {', '.join(recorded)} are recorded (tried out)"
    for part, reason in lost.items():
        yield False, f"{told['version']}: {part} are not recorded: {reason}"
