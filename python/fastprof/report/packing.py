# SPDX-License-Identifier: Apache-2.0
"""Packer: columns as compressed bytes, the data format of the report's page (page/decode.js reads it).

A block is the concatenation of the planes of its columns. A column of unsigned integers is split into byte planes,
lowest byte first, and each plane is compressed by itself: the high bytes of times compress well once they do
not alternate with the low ones, which are nearly random and are stored as they are. The directory of a
block is a list of dicts:

    {"name": str, "n": rows, "planes": [[codec, bytes], ...], "delta": 1, "zigzag": 1, "float": 1}

codec: 0 stored, 1 zlib. delta: values are differences to the row before. zigzag: bit 0 is the sign. float:
the planes are those of IEEE 754 doubles. A column of zeros has no planes.
"""

from __future__ import annotations

import binascii
import zlib
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

__all__ = ["Block", "Packer", "pack_text"]

Array: TypeAlias = NDArray[Any]
STORED, ZLIB = 0, 1
_SAMPLE = 1 << 15
_SMALL = 1 << 12  # bytes: a plane this small is compressed without a sample
_RANDOM_BITS = 7.5  # entropy of a byte from which a plane is stored: zlib would save less than 6 %


class Block:
    """A block under construction: directory entries and planes of its columns. Threads of the Packer compress."""

    def __init__(self, pool: ThreadPoolExecutor) -> None:
        self._pool = pool
        self._columns: list[tuple[dict[str, Any], list[Future[tuple[int, bytes]]]]] = []

    def integers(
        self, name: str, values: Array, *, delta: bool = False, signed: bool = False
    ) -> None:
        """Add a column of integers. They, or with delta their differences, must not be negative unless signed.

        delta: store the difference from the previous row.
        """
        values = np.ascontiguousarray(values, dtype=np.int64)
        if delta and len(values):
            values = np.diff(values, prepend=0)
        if signed:
            values = (values << 1) ^ (values >> 63)
        top = int(values.max()) if len(values) else 0
        width = (top.bit_length() + 7) // 8
        entry = {"name": name, "n": len(values)}
        if delta:
            entry["delta"] = 1
        if signed:
            entry["zigzag"] = 1
        self._add(entry, values, width)

    def floats(self, name: str, values: Array) -> None:
        """Add a column of doubles."""
        values = np.ascontiguousarray(values, dtype=np.float64)
        self._add({"name": name, "n": len(values), "float": 1}, values, 8 if values.any() else 0)

    def _add(self, entry: dict[str, Any], values: Array, width: int) -> None:
        little = values.astype(values.dtype.newbyteorder("<"), copy=False)
        planes = little.view(np.uint8).reshape(-1, 8)
        jobs = [self._begin(planes, k) for k in range(width)]
        self._columns.append((entry, jobs))

    def _begin(self, planes: Array, k: int) -> Future[tuple[int, bytes]]:
        try:
            return self._pool.submit(_compressed, planes, k)
        except RuntimeError:  # the program has ended, and pools with it
            done: Future[tuple[int, bytes]] = Future()
            done.set_result(_compressed(planes, k))
            return done

    def finish(self) -> tuple[list[dict[str, Any]], bytes]:
        """Wait for the compression; return (directory, bytes)."""
        directory, parts = [], []
        for entry, jobs in self._columns:
            planes = [job.result() for job in jobs]
            entry["planes"] = [[codec, len(data)] for codec, data in planes]
            parts += [data for _, data in planes]
            directory.append(entry)
        return directory, b"".join(parts)


class Packer:
    """The blocks of one report, by name. Use as a context manager: it owns the compressing threads."""

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(2, thread_name_prefix="fastprof-report")
        self._blocks: dict[str, Block] = {}

    def __enter__(self) -> Packer:
        return self

    def __exit__(self, *_: object) -> None:
        self._pool.shutdown()

    def block(self, name: str) -> Block:
        """Return the block of this name; create it on first use."""
        return self._blocks.setdefault(name, Block(self._pool))

    def finish(self) -> dict[str, tuple[list[dict[str, Any]], bytes]]:
        """Return the blocks by name."""
        return {name: block.finish() for name, block in self._blocks.items()}


def _compressed(planes: Array, k: int) -> tuple[int, bytes]:
    """Return (codec, bytes) of plane k."""
    plane = np.ascontiguousarray(planes[:, k])
    if len(plane) > _SMALL and _looks_random(plane):
        return STORED, plane.tobytes()
    data = zlib.compress(plane.data, 1)
    return (ZLIB, data) if len(data) < len(plane) else (STORED, plane.tobytes())


def _looks_random(plane: Array) -> bool:
    """Return whether a sample from the middle is incompressible: it has neither few values nor repetitions."""
    begin = max((len(plane) - _SAMPLE) // 2, 0)
    sample = plane[begin : begin + _SAMPLE]
    share = np.bincount(sample, minlength=256) / len(sample)
    used = share[share > 0]
    entropy = float(-(used * np.log2(used)).sum())
    limit = _RANDOM_BITS if len(sample) >= _SAMPLE // 2 else 7.9
    return entropy > limit and len(zlib.compress(sample.data, 1)) > 0.93 * len(sample)


def pack_text(text: bytes, level: int = 6) -> bytes:
    """Return base64 of the zlib-compressed text: characters that cannot end a script element."""
    return binascii.b2a_base64(zlib.compress(text, level), newline=False)
