# SPDX-License-Identifier: Apache-2.0
"""Writers of large generated traces, shaped as those that people load: PyTorch's with shapes and stacks, and databases of Nsight Systems.

Sizes are chosen by the caller; contents depend on the size alone, so that runs compare.
"""

from __future__ import annotations

import json
import random
import sqlite3
from collections.abc import Iterator
from pathlib import Path

__all__ = ["write_nsys_database", "write_pytorch_trace"]

_SHAPES = [
    [[64, 1024], [1024, 1024]],
    [[32, 3, 224, 224], []],
    [[64, 1024], [1024], [64, 1024]],
    [[128]],
    [[], [], [], [], []],
]
_TYPES = ["float", "c10::BFloat16", "Scalar", "long int", ""]
_FILES = [
    "torch/nn/modules/module.py(1776): _call_impl",
    "torch/nn/functional.py(2308): linear",
    "train.py(77): step",
    "model/attention.py(140): forward",
]
_STEP_EVENTS = 1000
_PROCESS = 4242


def _event(phase: str, category: str, name: str, tid: int, begin_us: float, rest: str) -> str:
    """Return an event with the line breaks and the order of members of Kineto's."""
    pid = 0 if category == "kernel" else _PROCESS
    return (
        f'  {{\n    "ph": "{phase}",\n    "cat": "{category}",\n    "name": "{name}",\n    "pid": {pid},\n'
        f'    "tid": {tid},\n    "ts": {begin_us:.3f},\n{rest}\n  }}'
    )


def _complete(
    category: str, name: str, tid: int, begin_us: float, duration_us: float, args: str
) -> str:
    rest = f'    "dur": {duration_us:.3f}\n    ,\n    "args": {{\n      {args}\n    }}'
    return _event("X", category, name, tid, begin_us, rest)


def _step(rng: random.Random, number: int, begin_us: float) -> Iterator[str]:
    """Yield the events of one step as Kineto writes them: one JSON text an event."""
    at = begin_us
    first = number * _STEP_EVENTS
    args = f'"External id": {first},"Record function id": 0, "Ev Idx": {first}'
    duration = _STEP_EVENTS * 11.5
    yield _complete("user_annotation", f"ProfilerStep#{number}", _PROCESS, begin_us, duration, args)
    for i in range(first + 1, first + _STEP_EVENTS, 5):
        kind = rng.randrange(60)
        shapes = _SHAPES[kind % len(_SHAPES)]
        strides = [list(reversed(shape)) for shape in shapes]
        types = [_TYPES[(kind + j) % len(_TYPES)] for j in range(len(shapes))]
        concrete = ["" if shape else str(kind) for shape in shapes]
        tid = _PROCESS if i % 3 else _PROCESS + 58
        args = f'"Python parent id": {max(i - 6, 0)}, "Python id": {i}, "Python module id": {kind}, "Ev Idx": {i}'
        yield _complete("python_function", _FILES[kind % 4], tid, at, rng.random() * 40 + 20, args)
        forward = "" if kind % 3 else f'"Sequence number": {i}, "Fwd thread id": {kind % 2}, '
        args = (
            f'"External id": {i},{forward}"Record function id": {i}, '
            f'"Concrete Inputs": {json.dumps(concrete)}, "Input type": {json.dumps(types)}, '
            f'"Input Strides": {json.dumps(strides)}, "Input Dims": {json.dumps(shapes)}, "Ev Idx": {i + 1}'
        )
        yield _complete("cpu_op", f"aten::op_{kind}", tid, at + 2, rng.random() * 15 + 5, args)
        args = f'"External id": {i}, "cbid": 211, "correlation": {i}'
        yield _complete("cuda_runtime", "cudaLaunchKernel", tid, at + 4, 2.112, args)
        name = f"void at::native::elementwise_kernel<{kind % 25}, 4, at::native::CUDAFunctor>(int, float*)"
        args = (
            f'"External id": {i}, "queued": 0, "device": 0, "context": 1,\n      "stream": 7, "correlation": {i},\n'
            f'      "registers per thread": 40,\n      "shared memory": 0,\n      "blocks per SM": 1.185185,\n'
            f'      "warps per SM": 9.481481,\n      "grid": [{kind * 4}, 1, 1],\n      "block": [256, 1, 1],\n'
            f'      "est. achieved occupancy %": {kind}'
        )
        yield _complete("kernel", name, 7, at + 30, rng.random() * 9 + 1, args)
        yield _event("s", "ac2g", "ac2g", tid, at + 4, f'    "id": {i}')
        at += 57.5


def write_pytorch_trace(path: Path, size_bytes: int) -> int:
    """Write a JSON trace of about `size_bytes` with the events and members of Kineto's; return the number of events."""
    rng = random.Random(0)
    written = events = step = 0
    with path.open("w") as file:
        file.write(
            '{\n  "schemaVersion": 1,\n  "deviceProperties": [],\n  "baseTimeNanoseconds": 1699853000000000000,\n  "traceEvents": [\n'
        )
        while written < size_bytes:
            texts = list(_step(rng, step, 4_696_171_435_977.885 + step * 11_600.25))
            text = ",\n".join(texts)
            file.write((",\n" if step else "") + text)
            written += len(text)
            events += len(texts)
            step += 1
        file.write('\n  ],\n  "traceName": "generated"\n}\n')
    return events


def write_nsys_database(path: Path, kernels: int) -> None:
    """Write the tables of an SQLite export of Nsight Systems: a call of the runtime for each kernel, ranges around ten."""
    rng = random.Random(0)
    database = sqlite3.connect(path)
    database.executescript(
        "CREATE TABLE StringIds (id INTEGER PRIMARY KEY, value TEXT);"
        "CREATE TABLE TARGET_INFO_SESSION_START_TIME (utcEpochNs INTEGER);"
        "INSERT INTO TARGET_INFO_SESSION_START_TIME VALUES (1699853000000000000);"
        "CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME (start INTEGER NOT NULL, end INTEGER NOT NULL, eventClass INTEGER NOT NULL, "
        "globalTid INTEGER, correlationId INTEGER, nameId INTEGER NOT NULL, returnValue INTEGER NOT NULL, callchainId INTEGER);"
        "CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INTEGER NOT NULL, end INTEGER NOT NULL, deviceId INTEGER NOT NULL, "
        "contextId INTEGER NOT NULL, greenContextId INTEGER, streamId INTEGER NOT NULL, correlationId INTEGER, globalPid INTEGER, "
        "demangledName INTEGER NOT NULL, shortName INTEGER NOT NULL, mangledName INTEGER, launchType INTEGER, cacheConfig INTEGER, "
        "registersPerThread INTEGER NOT NULL, gridX INTEGER NOT NULL, gridY INTEGER NOT NULL, gridZ INTEGER NOT NULL, "
        "blockX INTEGER NOT NULL, blockY INTEGER NOT NULL, blockZ INTEGER NOT NULL, staticSharedMemory INTEGER NOT NULL, "
        "dynamicSharedMemory INTEGER NOT NULL);"
        "CREATE TABLE NVTX_EVENTS (start INTEGER NOT NULL, end INTEGER, eventType INTEGER NOT NULL, rangeId INTEGER, "
        "category INTEGER, color INTEGER, text TEXT, globalTid INTEGER, endGlobalTid INTEGER, textId INTEGER, domainId INTEGER);"
    )
    database.executemany(
        "INSERT INTO StringIds VALUES (?, ?)",
        [(i, f"void kernel_{i}<float, {i}>(float*, int)") for i in range(400)],
    )
    process = (4242 << 24) | (1 << 48)

    def calls() -> Iterator[tuple[int | None, ...]]:
        for i in range(kernels):
            yield i * 5000, i * 5000 + 2100, 0, process | 4242, i + 1, 300, 0, None

    def work() -> Iterator[tuple[int | None, ...]]:
        for i in range(kernels):
            name = rng.randrange(300)
            start = i * 5000 + 9000 + rng.randrange(900)
            yield (start, start + 3000 + rng.randrange(900), 0, 1, None, 7 + i % 3, i + 1, process, name, name, None, 0, 0,
                   40, (name + 1) * 16, 1, 1, 256, 1, 1, 0, 1024)  # fmt: skip

    def ranges() -> Iterator[tuple[int | str | None, ...]]:
        for i in range(0, kernels, 10):
            yield (
                i * 5000 - 10,
                i * 5000 + 49_000,
                59,
                None,
                None,
                None,
                f"step {i % 50}",
                process | 4242,
                None,
                None,
                0,
            )

    for table, rows, width in (
        ("CUPTI_ACTIVITY_KIND_RUNTIME", calls(), 8),
        ("CUPTI_ACTIVITY_KIND_KERNEL", work(), 22),
        ("NVTX_EVENTS", ranges(), 11),
    ):
        database.executemany(f"INSERT INTO {table} VALUES ({', '.join('?' * width)})", rows)
    database.commit()
    database.close()
