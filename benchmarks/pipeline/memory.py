# SPDX-License-Identifier: Apache-2.0
"""Time memory by category beside PyTorch's memory profiler, and Python's allocators beside tracemalloc.

``memory.py [--json FILE] [--steps N] [--blocks N]``: CPU seconds of each stage, the least of three rounds; compare
within one run. Both profilers record the same training (a perceptron under Adam, ``--steps`` steps) with shapes,
memory and stacks. "timeline": from the stop to all entries with their categories. "file": PyTorch's JSON of memory over
time. "snapshot": of what is in use, while recording (PyTorch's snapshots are of CUDA memory, so there is no peer).
Then ``--blocks`` small objects are made and dropped plain, under tracemalloc, and under python_memory="exact". Last, a
program that allocates a block every 70 ns (JSON, sorting, regular expressions) and one that searches paths in a graph run with the
recording of Python's memory off, sampled and exact, alternately: seconds of the thread, and the ratio to off.
"""

from __future__ import annotations

import argparse
import heapq
import json
import re
import tempfile
import time
import tracemalloc
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import fastprof

ROUNDS = 3


def cpu_s(call: Callable[[], Any]) -> tuple[float, Any]:
    """Return (CPU seconds, result) of a call."""
    begin = time.process_time()
    result = call()
    return time.process_time() - begin, result


def training(steps: int) -> Callable[[Any], None]:
    """Return a function that trains for some steps under a given profile."""
    import torch

    torch.set_num_threads(1)
    layers: list[Any] = [torch.nn.Linear(32, 64), torch.nn.ReLU()]
    for _ in range(6):
        layers += [torch.nn.Linear(64, 64), torch.nn.ReLU()]
    model = torch.nn.Sequential(*layers, torch.nn.Linear(64, 8))
    optimizer = torch.optim.Adam(model.parameters())

    def train(profile: Any) -> None:
        with profile:
            for _ in range(steps):
                loss = model(torch.randn(16, 32)).square().mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                profile.step()

    return train


def of_fastprof(train: Callable[[Any], None], folder: str) -> dict[str, float]:
    """Return CPU seconds of fastprof's stages."""
    profile = fastprof.profile(record_shapes=True, profile_memory=True, with_stack=True)
    found = {"training": cpu_s(lambda: train(profile))[0]}
    found["timeline"], memory = cpu_s(profile.memory_profile)
    seconds, entries = cpu_s(
        lambda: [(e, memory.category(e.storage, e.version)) for e in memory.timeline]
    )
    found["timeline"] += seconds
    found["entries"] = len(entries)
    path = str(Path(folder) / "ours.json")
    found["file"] = cpu_s(lambda: profile.export_memory_timeline(path, "cpu:0"))[0]
    found["report"] = cpu_s(profile.memory_report)[0]
    return found


def of_torch(train: Callable[[Any], None], folder: str) -> dict[str, float]:
    """Return CPU seconds of PyTorch's stages."""
    from torch.profiler import ProfilerActivity, profile

    peer = profile(
        activities=[ProfilerActivity.CPU], record_shapes=True, profile_memory=True, with_stack=True
    )
    found = {"training": cpu_s(lambda: train(peer))[0]}
    found["timeline"], memory = cpu_s(peer._memory_profile)
    seconds, entries = cpu_s(lambda: [(e, memory._categories.get(*e[2])) for e in memory.timeline])
    found["timeline"] += seconds
    found["entries"] = len(entries)
    path = str(Path(folder) / "theirs.json")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # deprecated in 2.13
        found["file"] = cpu_s(lambda: peer.export_memory_timeline(path, "cpu"))[0]
    return found


def running_snapshot(train: Callable[[Any], None]) -> dict[str, float]:
    """Return CPU seconds of a snapshot taken while a training's recording runs."""
    profile = fastprof.profile(record_shapes=True, profile_memory=True)
    profile.start()
    train(_Silent())
    seconds, snapshot = cpu_s(profile.memory_snapshot)
    profile.stop()
    return {"snapshot": seconds, "events": sum(map(len, snapshot["device_traces"]))}


class _Silent:
    """Stands for a profile in a training that another profile records."""

    def __enter__(self) -> _Silent:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def step(self) -> None:
        """Do nothing."""


def churn(blocks: int) -> None:
    """Make and drop small objects, at most a thousand at a time."""
    held: list[bytes] = []
    for i in range(blocks):
        held.append(bytes(64 + i % 448))
        if len(held) == 1000:
            held.clear()


def under_tracemalloc(blocks: int) -> None:
    """Run churn() under tracemalloc, with one frame a block."""
    tracemalloc.start(1)
    try:
        churn(blocks)
    finally:
        tracemalloc.stop()


def under_fastprof(blocks: int) -> None:
    """Run churn() while Python's allocators are recorded."""
    profile = fastprof.profile(python_memory="exact", max_bytes=1 << 30)
    profile.start()
    churn(blocks)
    profile.stop()


def handle_records(rounds: int) -> int:
    """Format, parse, group and sort records: nearly all work is on new objects."""
    done = 0
    for _ in range(rounds):
        rows = [
            {"id": i, "name": f"user{i % 97}", "score": i * 1.5, "tags": ["a", str(i % 7)]}
            for i in range(200)
        ]
        text = json.dumps(rows)
        by_name: dict[str, list[float]] = {}
        for row in json.loads(text):
            by_name.setdefault(row["name"], []).append(row["score"])
        top = sorted(((sum(v) / len(v), name) for name, v in by_name.items()), reverse=True)[:10]
        done += len(top) + len(set(re.findall(r"user\d+", text)))
        done += sum(abs(point.real) for point in [complex(i, i + 1) for i in range(300)]) > 0
    return done


def search_paths(rounds: int) -> int:
    """Find the shortest paths from corners of a grid (Dijkstra)."""
    width, far = 30, 0
    for start in range(rounds // 10):
        distance = {start: 0}
        queue = [(0, start)]
        while queue:
            so_far, at = heapq.heappop(queue)
            if so_far > distance[at]:
                continue
            for step in (1, -1, width, -width):
                to = at + step
                if not 0 <= to < width * width or (step in (1, -1) and to // width != at // width):
                    continue
                through = so_far + 1 + (to * 7 + at * 3) % 11
                if through < distance.get(to, 1 << 30):
                    distance[to] = through
                    heapq.heappush(queue, (through, to))
        far += max(distance.values())
    return far


def cost_of_python_memory(
    name: str, program: Callable[[int], int], rounds: int = 9
) -> list[dict[str, Any]]:
    """Return the least seconds of a program with recording off, sampled and exact, and the ratios to off."""
    modes: dict[str, bool | str] = {"off": False, "sampled": True, "exact": "exact"}
    best: dict[str, float] = {}
    for _ in range(rounds):
        for case, mode in modes.items():
            with fastprof.profile(
                profile_memory=True, python_memory=mode, all_threads=False, max_bytes=1 << 30
            ):
                begin = time.thread_time()
                program(100)
                seconds = time.thread_time() - begin
            best[case] = min(best.get(case, seconds), seconds)
    return [
        {
            "suite": "memory",
            "case": f"{name}, python_memory {case}",
            "cpu_s": round(seconds, 6),
            "ratio_to_off": round(seconds / best["off"], 3),
        }
        for case, seconds in best.items()
    ]


def least(rounds: list[dict[str, float]]) -> dict[str, float]:
    """Return the least of each stage, rounded to microseconds."""
    return {name: round(min(one[name] for one in rounds), 6) for name in rounds[0]}


def main() -> None:
    """Run the measurements and print them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json")
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--blocks", type=int, default=500_000)
    options = parser.parse_args()
    rows: list[dict[str, Any]] = []
    try:
        train = training(options.steps)
    except ImportError:
        print("torch: not installed")
    else:
        with tempfile.TemporaryDirectory() as folder:
            train(_Silent())
            for name, measure in (("fastprof", of_fastprof), ("torch.profiler", of_torch)):
                measure(train, folder)
                best = least([measure(train, folder) for _ in range(ROUNDS)])
                rows.append({"suite": "memory", "case": f"{name}, {options.steps} steps", **best})
        best = least([running_snapshot(train) for _ in range(ROUNDS)])
        rows.append({"suite": "memory", "case": "fastprof, running", **best})
    for name, run in (
        ("plain", churn),
        ("tracemalloc", under_tracemalloc),
        ("python_memory exact", under_fastprof),
    ):
        run(1000)
        seconds = min(cpu_s(lambda run=run: run(options.blocks))[0] for _ in range(ROUNDS))
        case = f"{name}, {options.blocks} objects"
        rows.append({"suite": "memory", "case": case, "cpu_s": round(seconds, 6)})
    rows += cost_of_python_memory("records", handle_records)
    rows += cost_of_python_memory("paths", search_paths)
    for row in rows:
        print(json.dumps(row), flush=True)
    if options.json:
        with open(options.json, "a") as out:
            out.writelines(json.dumps(row) + "\n" for row in rows)


if __name__ == "__main__":
    main()
