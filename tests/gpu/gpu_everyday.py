# SPDX-License-Identifier: Apache-2.0
"""Checks of what a user types on a machine with a GPU: `fastprof run` and the commands that read what it wrote.

The double has no PyTorch on a device, so these need a real one. Each check works in the folder that it is started in.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from gpu_traces import Result, skip
from gpu_workloads import Gpu

import fastprof

__all__ = ["EVERYDAY_CHECKS"]

_TRAIN = str(Path(__file__).with_name("everyday_train.py"))
_WORK = ("kernel", "gpu_memcpy", "gpu_memset")


def _fastprof(*words: str, limit_s: float = 80) -> str:
    """Run a command; return its output and errors. Raises RuntimeError if it fails."""
    done = subprocess.run(
        [sys.executable, "-m", "fastprof", *words], capture_output=True, text=True, timeout=limit_s
    )
    if done.returncode != 0:
        raise RuntimeError(
            f"{words} ended with {done.returncode}: {(done.stdout + done.stderr)[-2500:]}"
        )
    return done.stdout + done.stderr


def _work_of(path: str) -> dict[str, tuple[int, int]]:
    """Number and total time, in ns, of the work on devices by name."""
    table = fastprof.load(path)
    categories, found = table.sites.field("category"), {}
    sites, duration = table.column("site"), table.end_ns - table.start_ns
    for site in np.unique(sites).tolist():
        if categories[site] in _WORK:
            name, rows = table.sites.names[site], sites == site
            count, ns = found.get(name, (0, 0))
            found[name] = (count + int(rows.sum()), ns + int(duration[rows].sum()))
    return found


def _links_of(path: str) -> dict[str, int]:
    """How many kernels there are, and how many of them are linked to no range."""
    table = fastprof.load(path)
    is_kernel = np.array([c == "kernel" for c in table.sites.field("category")], np.bool_)
    rows = is_kernel[table.column("site")]
    linked = np.isin(
        table.column("linked_correlation_id")[rows], table.column("external_id")[~rows]
    )
    return {"kernels": int(rows.sum()), "unlinked": int((~linked).sum())}


def everyday_outputs(gpu: Gpu) -> Result:
    """Each format of one run has the same work on the device, and each command reads it."""
    text = _fastprof("run", "-o", "t.fastprof", _TRAIN, "plain", "20")
    wanted, faults = _work_of("t.fastprof"), []
    facts: dict[str, Any] = {"printed": text[-1500:], **_links_of("t.fastprof")}
    if not any(count >= 20 for count, _ in wanted.values()) or facts["unlinked"]:
        faults.append(f"of 20 steps: {wanted}, {facts['unlinked']} unlinked")
    for name in ("t.json", "t.json.gz", "t.pftrace"):
        _fastprof("convert", "t.fastprof", name)
        found = _work_of(name)
        if found.keys() != wanted.keys() or any(
            found[each][0] != count or abs(found[each][1] - ns) > count  # json rounds to ns
            for each, (count, ns) in wanted.items()
        ):
            faults.append(f"{name}: {found}, not {wanted}")
    for name in ("t.html", "t.folded", "t.pprof", "t.speedscope.json", "t.csv"):
        _fastprof("convert", "t.fastprof", name)
    facts["doctor"] = _fastprof("doctor", "t.pftrace")
    facts["explain"] = _fastprof("explain", "--step", "train step", "t.fastprof")
    facts["report"] = _fastprof("report", "--sort-by", "cuda_time_total", "t.json.gz")[:1500]
    if "nothing is wrong" not in facts["doctor"].lower():
        faults.append(facts["doctor"])
    return {"faults": faults, "facts": facts}


def everyday_explained(gpu: Gpu) -> Result:
    """explain says why the device was idle: a planted reason has its share. The first step loads CUDA's modules."""
    faults, facts = [], {}
    for way, steps, reason, least, most in (
        ("item", "300", "the host had waited for the device", 2, 30),
        ("tiny", "50", "the host launched too late", 80, 100),
        ("loader", "40", "the host waited for the data loader", 50, 100),
        ("plain", "300", "the host launched too late", 0, 30),
    ):
        _fastprof("run", "--no-table", "-o", f"{way}.fastprof", _TRAIN, way, steps)
        text = _fastprof("explain", "--step", "train step", f"{way}.fastprof")
        facts[way] = text[:3000]
        (idle,) = [line for line in text.splitlines() if "was idle" in line][:1] or [""]
        share = re.search(rf"([\d.]+) % {reason}", idle)
        if not least <= (float(share[1]) if share else 0) <= most:
            faults.append(f"{way}: {idle!r}")
    return {"faults": faults, "facts": facts}


def everyday_compiled(gpu: Gpu) -> Result:
    """torch.compile with CUDA graphs: kernels of the graphs are linked to their launch."""
    _fastprof("run", "-o", "c.fastprof", _TRAIN, "compiled", "30", limit_s=110)
    links = _links_of("c.fastprof")
    faults = [f"{links}"] if links["kernels"] < 30 or links["unlinked"] else []
    explained = _fastprof("explain", "--step", "train step", "c.fastprof")
    return {
        "faults": faults,
        "facts": {**links, "explain": explained[:1500]},
    }


def everyday_job(gpu: Gpu) -> Result:
    """A job of torchrun with NCCL: its rank's folder is read, with its steps and compute."""
    done = subprocess.run(
        [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "1", "--no-python",
         sys.executable, "-m", "fastprof", "run", "--ranks", "ranks", _TRAIN, "job", "30"],
        capture_output=True, text=True, timeout=80,
    )  # fmt: skip
    if done.returncode != 0:
        return {"faults": [(done.stdout + done.stderr)[-2500:]], "facts": {}}
    try:
        answers = json.loads(_fastprof("ranks", "ranks", "--as-json"))
    except RuntimeError as error:
        return (
            skip(str(error)) if "pyarrow" in str(error) else {"faults": [str(error)], "facts": {}}
        )
    return {"faults": [], "facts": {"answers": json.dumps(answers)[:3000]}}


def everyday_children(gpu: Gpu) -> Result:
    """--follow: the work of a spawned process that uses the device is on the timeline, too."""
    _fastprof("run", "--follow", "-o", "f.fastprof", _TRAIN, "child", "20")
    links = _links_of("f.fastprof")
    _fastprof("run", "-o", "one.fastprof", _TRAIN, "plain", "20")
    alone = _links_of("one.fastprof")
    faults = (
        [] if links["kernels"] == 2 * alone["kernels"] else [f"{links}, of one process {alone}"]
    )
    return {"faults": faults, "facts": {"both": links, "one": alone}}


def everyday_interrupted(gpu: Gpu) -> Result:
    """Ctrl-C in the middle of training: the trace has the work until then, and the status is that without fastprof."""

    def interrupt(pid: int) -> None:
        os.kill(pid, signal.SIGINT)

    run = ["-m", "fastprof", "run", "-o", "i.fastprof"]
    facts: dict[str, Any] = {
        "status": _stopped_in_the_middle(run, interrupt),
        "without": _stopped_in_the_middle([], interrupt),
        **_links_of("i.fastprof"),
    }
    good = facts["kernels"] > 100 and facts["status"] == facts["without"]
    return {"faults": [] if good else [str(facts)], "facts": facts}


def everyday_flight(gpu: Gpu) -> Result:
    """The flight recorder beside CUDA: looked at, dumped, killed, dumped again."""
    facts: dict[str, Any] = {}

    def look(pid: int) -> None:
        facts["live"] = _fastprof("live", "--once", str(pid))[:1500]
        _fastprof("dump", "-o", "alive.flight", str(pid))
        os.kill(pid, signal.SIGKILL)
        time.sleep(1)
        _fastprof("dump", "-o", "killed.flight", str(pid))
        facts["report"] = _fastprof("report", "--row-limit", "-1", "killed.flight")

    facts["status"] = _stopped_in_the_middle(["-m", "fastprof", "run", "--flight-recorder"], look)
    faults = [
        f"no step in {name}" for name in ("live", "report") if "train step" not in facts[name]
    ]
    return {"faults": faults, "facts": facts}


def _stopped_in_the_middle(options: list[str], act: Callable[[int], None]) -> int | str:
    """Run a training without an end, act on its process after a second; return its status."""
    process = subprocess.Popen(
        [sys.executable, *options, _TRAIN, "item", "1000000"],
        stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        assert process.stdout is not None
        process.stdout.readline()  # "trains"
        time.sleep(1)
        act(process.pid)
        return process.wait(60)
    except subprocess.TimeoutExpired:
        return "timeout"
    finally:
        process.kill()
        process.wait()


EVERYDAY_CHECKS: dict[str, Callable[[Any], Result]] = {
    check.__name__: check
    for check in (
        everyday_outputs, everyday_explained, everyday_compiled, everyday_job, everyday_children,
        everyday_interrupted, everyday_flight,
    )
}  # fmt: skip
