# SPDX-License-Identifier: Apache-2.0
"""Scripts of GPU work, from a trace of Kineto's or made up, that a test replays through the double of CUPTI.

A script lists actions in order of time, each [thread, action, ...]. Actions: ["push", name] and ["pop"] of ranges,
and launches ["kernel" | "driver", name, device, stream, ns], ["graph", name, device, stream, ns, nodes],
["copy", name, device, stream, ns, bytes] and ["fill", device, stream, ns, bytes]. `expected()` returns what a
profile of it must contain. The project contains no foreign traces: set FASTPROF_GPU_TRACES to a folder with some, such
as tests/data of HolisticTraceAnalysis's repository. `made_trace()` has the same structure.
"""

from __future__ import annotations

import gzip
import json
import os
import random
from collections import defaultdict
from pathlib import Path
from typing import Any

_DIRECTIONS = {"HtoD": 1, "DtoH": 2, "DtoD": 8, "HtoH": 9, "PtoP": 10}
_MEMORIES = {"Pageable": 1, "Pinned": 2, "Device": 3, "Array": 4, "Managed": 5}
_COPIES = (
    "HtoD (Pageable -> Device)",
    "HtoD (Pinned -> Device)",
    "DtoH (Device -> Pinned)",
    "DtoD (Device -> Device)",
)
_WORK = ("kernel", "gpu_memcpy", "gpu_memset")
_RANGES = ("cpu_op", "user_annotation")
# Kineto's names of calls that the double can make, by what they launch.
_CALLS = {
    "cudaLaunchKernel": "kernel", "cudaLaunchKernelExC": "kernel", "cuLaunchKernel": "driver",
    "cuLaunchKernelEx": "driver", "cudaMemcpyAsync": "copy", "cudaMemsetAsync": "fill", "cudaGraphLaunch": "graph",
}  # fmt: skip

Event = dict[str, Any]


def sample_traces() -> list[Path]:
    """Return the traces in the folder that FASTPROF_GPU_TRACES names; none without it."""
    folder = os.environ.get("FASTPROF_GPU_TRACES")
    return sorted(Path(folder).glob("*.json*")) if folder else []


def read_trace(path: Path) -> list[Event]:
    """Return the complete events of a trace, by time; of equal begins, the longest first."""
    data = path.read_bytes()
    text = gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data
    return _ordered(json.loads(text)["traceEvents"])


def _ordered(events: list[Event]) -> list[Event]:
    kept = [e for e in events if e.get("ph") == "X" and str(e.get("cat")) not in ("Trace", "None")]
    return sorted(kept, key=lambda e: (e["ts"], -e["dur"]))


def _launches(events: list[Event]) -> list[tuple[Event, list[Event]]]:
    """Return (call, its work) of each launch that the double can make, in the order of the calls."""
    work = defaultdict(list)
    for event in events:
        if event["cat"] in _WORK:
            work[event["args"]["correlation"]].append(event)
    return [
        (e, work[e["args"]["correlation"]])
        for e in events
        if e["cat"] in ("cuda_runtime", "cuda_driver")
        and e["name"] in _CALLS
        and work[e["args"].get("correlation", -1)]
    ]


def script_of(events: list[Event]) -> list[list[Any]]:
    """Return the script of a trace: its ranges, and the launches in them."""
    launches = {id(call): work for call, work in _launches(events)}
    actions: list[list[Any]] = []
    open_until: dict[Any, list[float]] = defaultdict(list)

    def close(thread: Any, before: float) -> None:
        while open_until[thread] and open_until[thread][-1] <= before:
            open_until[thread].pop()
            actions.append([thread, "pop"])

    for event in events:
        thread = event["tid"]
        if event["cat"] in _RANGES:
            close(thread, event["ts"])
            end = event["ts"] + event["dur"]
            if open_until[thread] and end > open_until[thread][-1]:
                end = open_until[thread][-1]  # rounded stamps
            open_until[thread].append(end)
            actions.append([thread, "push", event["name"]])
        elif id(event) in launches:
            close(thread, event["ts"])
            actions.append([thread, *_launch(event["name"], launches[id(event)])])
    for thread in list(open_until):
        close(thread, float("inf"))
    return actions


def _launch(call: str, work: list[Event]) -> list[Any]:
    event, args = work[0], work[0]["args"]
    place = [args["device"], args["stream"], round(event["dur"] * 1000)]
    what = _CALLS[call]
    if what == "fill":
        return ["fill", *place, args["bytes"]]
    if what == "copy":
        return ["copy", event["name"], *place, args["bytes"]]
    return [what, event["name"], *place, *([len(work)] if what == "graph" else [])]


def copy_numbers(name: str) -> tuple[int, int, int]:
    """Return CUPTI's numbers of "Memcpy HtoD (Pageable -> Device)": direction, memory from, memory to."""
    direction, _, memories = name.removeprefix("Memcpy ").partition(" (")
    source, _, to = memories.rstrip(")").partition(" -> ")
    return _DIRECTIONS[direction], _MEMORIES[source], _MEMORIES[to]


def expected(events: list[Event]) -> dict[str, list[list[Any]]]:
    """Return what a replay must show, by "device/stream": [category, name, ns, bytes, innermost range].

    Searches all events for each launch, so that it shares no code with script_of().
    """
    ranges = [e for e in events if e["cat"] in _RANGES]
    found: dict[str, list[list[Any]]] = defaultdict(list)
    for call, work in _launches(events):
        around = [
            e for e in ranges
            if e["tid"] == call["tid"] and e["ts"] <= call["ts"] < e["ts"] + e["dur"]
        ]  # fmt: skip
        # The last to begin; of those with rounded stamps that are equal, the last in the file.
        name = around[-1]["name"] if around else None
        for event in work:
            args = event["args"]
            found[f"{args['device']}/{args['stream']}"].append(
                [event["cat"], event["name"], round(event["dur"] * 1000), args.get("bytes"), name]
            )
    return dict(found)


def made_trace(seed: int, steps: int = 12) -> list[Event]:
    """Return events with the structure of a training step's trace: a forward and a backward thread.

    Nested ops, kernels with long names queued behind each other, copies from pageable and pinned memory on
    a stream of their own, fills, launches by the driver, graphs, two devices, calls without work; stamps
    of whole us, as older traces have them.
    """
    chance = random.Random(seed)
    events: list[Event] = []
    correlation = 0
    free_at: dict[tuple[int, int], float] = defaultdict(float)
    now = 1_000_000

    def range_(name: str, category: str, thread: int, begin: int, end: int) -> None:
        times = {"ts": begin, "dur": end - begin}
        events.append(
            {"ph": "X", "cat": category, "name": name, "pid": 9, "tid": thread, **times, "args": {}}
        )

    def launch(
        call: str, category: str, name: str, thread: int, device: int, stream: int, nodes: int = 1
    ) -> None:
        nonlocal correlation, now
        correlation += 1
        runtime = (
            "cuda_driver"
            if call.startswith("cu") and not call.startswith("cuda")
            else "cuda_runtime"
        )
        events.append(
            {"ph": "X", "cat": runtime, "name": call, "pid": 9, "tid": thread, "ts": now, "dur": 4,
             "args": {"correlation": correlation}}
        )  # fmt: skip
        duration = chance.randrange(1, 90)
        for _ in range(nodes):
            begin = max(now + 6, free_at[device, stream])
            free_at[device, stream] = begin + duration
            args: dict[str, Any] = {"device": device, "stream": stream, "correlation": correlation}
            if category != "kernel":
                args["bytes"] = chance.randrange(1, 1 << 24)
            events.append(
                {"ph": "X", "cat": category, "name": name, "pid": device, "tid": stream, "ts": begin,
                 "dur": duration, "args": args}
            )  # fmt: skip
        now += 8

    def op(thread: int, depth: int) -> None:
        nonlocal now
        begin = now
        now += 3
        for _ in range(chance.randrange(1, 4)):
            kind = chance.random()
            device = chance.randrange(2)
            if kind < 0.35 and depth < 4:
                op(thread, depth + 1)
            elif kind < 0.7:
                name = f"void at::native::elementwise_kernel<{chance.randrange(9)}, float>(int, float*)"
                launch("cudaLaunchKernel", "kernel", name, thread, device, 7)
            elif kind < 0.8:
                name = f"Memcpy {chance.choice(_COPIES)}"
                launch("cudaMemcpyAsync", "gpu_memcpy", name, thread, device, 20)
            elif kind < 0.87:
                launch("cudaMemsetAsync", "gpu_memset", "Memset (Device)", thread, device, 7)
            elif kind < 0.94:
                launch(
                    "cuLaunchKernel", "kernel", f"triton_{chance.randrange(5)}", thread, device, 7
                )
            else:
                launch(
                    "cudaGraphLaunch", "kernel", "in_graph", thread, device, 20, nodes=chance.randrange(1, 6),
                )  # fmt: skip
        range_(f"aten::op{chance.randrange(30)}", "cpu_op", thread, begin, now)
        now += 1

    for step in range(steps):
        begin = now
        now += 2
        for _ in range(4):
            op(100, 0)
        for _ in range(4):
            op(200, 0)  # autograd's thread
        range_(f"ProfilerStep#{step}", "user_annotation", 100, begin, now)
        now += 5
    return _ordered(events)


# The program that replays script.json; run(double, REPLAY, folder) of cuda_double.py. Prints what was found on each
# stream, as expected() does, and how many arrows there are.
REPLAY = """
import queue, time
from collections import defaultdict
from gpu_scripts import copy_numbers
from fastprof import _core
script = json.load(open("script.json"))
before = _core.device_clock(time.monotonic_ns); time.sleep(0.05); after = _core.device_clock(time.monotonic_ns)
rate = (after[1] - before[1]) / (after[0] - before[0])
kept = []  # the double keeps addresses of names
def ticks(ns): return ctypes.c_uint64(round(ns * rate))
def text(name):
    kept.append(ctypes.create_string_buffer(name.encode()))
    return kept[-1]
def act(stack, what, *a):
    if what == "push":
        stack.append(record_function(a[0])); stack[-1].__enter__()
    elif what == "pop":
        stack.pop().__exit__(None, None, None)
    elif what == "kernel": gpu.fake_launch(text(a[0]), a[1], a[2], ticks(a[3]))
    elif what == "driver": gpu.fake_driver_launch(text(a[0]), a[1], a[2], ticks(a[3]))
    elif what == "graph": gpu.fake_graph_launch(text(a[0]), a[1], a[2], ticks(a[3]), a[4])
    elif what == "copy": gpu.fake_memcpy(*copy_numbers(a[0]), ctypes.c_uint64(a[4]), a[1], a[2], ticks(a[3]))
    elif what == "fill": gpu.fake_memset(ctypes.c_uint64(a[3]), a[0], a[1], ticks(a[2]))
todo, done = {}, queue.SimpleQueue()
def work(mine):
    stack = []
    while (action := mine.get()) is not None:
        act(stack, *action); done.put(None)
for thread in {action[0] for action in script}:
    todo[thread] = queue.SimpleQueue()
    threading.Thread(target=work, args=(todo[thread],), daemon=True).start()
with profile(activities=both) as prof:
    for thread, *action in script:  # one after another, each on its thread
        todo[thread].put(action); done.get()
prof.export_chrome_trace("replayed.json")
events = [e for e in json.load(open("replayed.json"))["traceEvents"]]
ranges = {e["args"]["External id"]: e["name"] for e in events if e.get("cat") == "user_annotation"}
found = defaultdict(list)
for e in sorted((e for e in events if e.get("cat") in ("kernel", "gpu_memcpy", "gpu_memset")), key=lambda e: e["ts"]):
    args = e["args"]
    found[f"{args['device']}/{args['stream']}"].append(
        [e["cat"], e["name"], e["dur"] * 1000, args.get("bytes"), ranges.get(args.get("External id"))])
calls = {e["args"]["correlation"]: e for e in events if e.get("cat") in ("cuda_runtime", "cuda_driver")}
arrows = {(e["pid"], e["tid"], e["ts"]) for e in events if e.get("cat") == "ac2g" and e["ph"] == "f"}
work = [e for e in events if e.get("cat") in ("kernel", "gpu_memcpy", "gpu_memset")]
print(json.dumps({
    "found": found, "dropped": sum(prof.event_table.dropped.values()),
    "without_arrow": sum((e["pid"], e["tid"], e["ts"]) not in arrows for e in work),
    "before_call": sum(e["ts"] < calls[e["args"]["correlation"]]["ts"] for e in work),
    "elsewhere": sum((e["pid"], e["tid"]) != (e["args"]["device"], e["args"]["stream"]) for e in work),
}))
"""
