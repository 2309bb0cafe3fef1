# SPDX-License-Identifier: Apache-2.0
"""The file in which a flight recorder keeps the last samples; csrc/adapters/python/sample_file.hpp writes it.

`copied` is the form in a dump: the header, then the used bytes of both segments, compressed and as text.
"""

from __future__ import annotations

import base64
import contextlib
import os
import struct
import zlib
from typing import TypeAlias

import numpy as np

from fastprof.base import errors
from fastprof.model.sampled_stacks import SampledStacks

__all__ = ["SAMPLE_FILE_BYTES", "copied_samples", "read_samples", "samples_path"]

SAMPLE_FILE_BYTES = 4 << 20
_MAGIC = 0x31504D4153465046
_HEADER = struct.Struct("<QQd4Q")
_PAGE_BYTES = 4096
_HEAD = struct.Struct("<II")
_CODE, _NODE, _THREAD, _RUN = 1, 2, 3, 4
_PAYLOADS = {
    _CODE: struct.Struct("<iHH"),
    _NODE: struct.Struct("<iIiI"),
    _THREAD: struct.Struct("<II"),
    _RUN: struct.Struct("<qqIiII"),
}
_MAX_TEXT_BYTES = 1_400_000  # the metadata of a dump have 2 MB
_RETRIES = 5
_MAX_SAMPLES = 1 << 26  # of a file that is not damaged: 20 kHz, some minutes, and many threads

Run: TypeAlias = tuple[int, int, int, int, int, int]


def samples_path(records: str) -> str:
    """Return the path of the samples that belong to the records of a recorder."""
    return os.path.splitext(records)[0] + ".samples"


def copied_samples(records: str) -> str:
    """Return the samples beside `records`, whose process may write them, as text for a dump; "" if there are none."""
    parts: list[bytes] = []
    with contextlib.suppress(OSError, struct.error), open(samples_path(records), "rb") as file:
        for _ in range(_RETRIES):
            file.seek(0)
            header = _HEADER.unpack(file.read(_HEADER.size))
            magic, segment_bytes, hz, *segments = header
            if magic != _MAGIC:
                return ""
            parts = []
            for i in range(2):
                file.seek(_PAGE_BYTES + i * segment_bytes)
                parts.append(file.read(min(segments[2 * i + 1], segment_bytes)))
            file.seek(0)
            after = _HEADER.unpack(file.read(_HEADER.size))
            if after[3::2] == header[3::2]:
                break
            parts = []  # a segment was begun again
    if not parts:
        return ""
    newest = 0 if segments[0] > segments[2] else 1
    while True:
        used = [len(part) for part in parts]
        head = _HEADER.pack(_MAGIC, segment_bytes, hz, segments[0], used[0], segments[2], used[1])
        text = base64.b64encode(zlib.compress(head + b"".join(parts), 6)).decode()
        if len(text) <= _MAX_TEXT_BYTES:
            return text
        parts = [b"" if i != newest else part for i, part in enumerate(parts)]
        if not used[1 - newest]:
            return ""


def read_samples(text: str) -> SampledStacks:
    """Return the samples of a dump. Raises errors.FormatError if they are damaged."""
    try:
        raw = zlib.decompress(base64.b64decode(text))
        magic, _, hz, first, first_bytes, second, second_bytes = _HEADER.unpack_from(raw)
        if magic != _MAGIC or _HEADER.size + first_bytes + second_bytes != len(raw) or not hz > 0:
            raise errors.FormatError("the samples of this dump are damaged: invalid header")
        middle = _HEADER.size + first_bytes
        parts = [(first, raw[_HEADER.size : middle]), (second, raw[middle:])]
        reader = _Reader()
        for _, part in sorted(parts):
            reader.add(part)
        return reader.stacks(hz)
    except (ValueError, zlib.error, struct.error, IndexError, KeyError) as error:
        raise errors.FormatError(f"the samples of this dump are damaged: {error}") from error


class _Reader:
    def __init__(self) -> None:
        self.codes: list[tuple[str, str, int]] = []
        self.nodes: list[tuple[int, int, int]] = []
        self.threads: dict[int, int] = {}  # id of the kernel -> number
        self.runs: list[Run] = []
        self._samples = 0

    def add(self, part: bytes) -> None:
        """Add the records of a segment, whose numbers begin at 0."""
        first_code, first_node = len(self.codes), len(self.nodes)
        threads: list[int] = []
        at = 0
        while at < len(part):
            kind, size = _HEAD.unpack_from(part, at)
            payload = _PAYLOADS[kind]
            if size < _HEAD.size + payload.size or at + size > len(part):
                raise IndexError(f"a record at byte {at}")
            fields = payload.unpack_from(part, at + _HEAD.size)
            if kind == _RUN:
                start_ns, last_ns, thread, node, count, state = fields
                if not -1 <= node < len(self.nodes) - first_node or start_ns > last_ns:
                    raise IndexError(f"a run at byte {at}")
                self._samples += count
                if self._samples > _MAX_SAMPLES:
                    raise IndexError(f"a run of {count} samples at byte {at}")
                node = node + first_node if node >= 0 else -1
                self.runs.append((start_ns, last_ns, threads[thread], node, count, state))
            elif kind == _NODE:
                parent, code, line, _ = fields
                if not -1 <= parent < len(self.nodes) - first_node:
                    raise IndexError(f"a frame at byte {at}")
                if code >= len(self.codes) - first_code:
                    raise IndexError(f"a frame at byte {at}")
                parent = parent + first_node if parent >= 0 else -1
                self.nodes.append((parent, code + first_code, line))
            elif kind == _THREAD:
                threads.append(self.threads.setdefault(fields[0], len(self.threads)))
            else:
                line, name_bytes, file_bytes = fields
                begin = at + _HEAD.size + payload.size
                name = part[begin : begin + name_bytes].decode("utf-8", "replace")
                begin += name_bytes
                file = part[begin : begin + file_bytes].decode("utf-8", "replace")
                self.codes.append((name, file, line))
            at += size

    def stacks(self, hz: float) -> SampledStacks:
        runs = np.array(self.runs, np.int64).reshape(-1, 6)
        nodes = np.array(self.nodes, np.int64).reshape(-1, 3)
        return SampledStacks(
            hz=hz,
            first_ns=runs[:, 0],
            last_ns=runs[:, 1],
            thread=runs[:, 2].astype(np.uint32),
            node=runs[:, 3].astype(np.int32),
            count=runs[:, 4].astype(np.uint32),
            state=runs[:, 5].astype(np.uint8),
            parent=nodes[:, 0].astype(np.int32),
            code=nodes[:, 1].astype(np.uint32),
            line=nodes[:, 2].astype(np.int32),
            codes=tuple(self.codes),
            threads=tuple((tid, f"thread {tid}") for tid in self.threads),
            counts={},
        )
