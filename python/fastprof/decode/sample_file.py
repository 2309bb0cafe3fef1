# SPDX-License-Identifier: Apache-2.0
"""The file in which a flight recorder or a followed process keeps its samples.

csrc/adapters/python/sample_file.hpp writes it.

`copied` is the form in a dump: the header, then the used bytes of both segments, compressed and as text.
"""

from __future__ import annotations

import base64
import contextlib
import os
import struct
import zlib
from collections.abc import Iterable
from dataclasses import replace
from typing import Any, BinaryIO, TypeAlias

import numpy as np

from fastprof.base import errors
from fastprof.model.sampled_stacks import SampledStacks

__all__ = [
    "MAGIC",
    "PAGE_BYTES",
    "RUN",
    "SAMPLE_FILE_BYTES",
    "SampleSegment",
    "copied_samples",
    "read_header",
    "read_sample_file",
    "read_samples",
    "samples_path",
]

SAMPLE_FILE_BYTES = 4 << 20
MAGIC = 0x31504D4153465046
HEADER = struct.Struct("<QQd4Q")
_COUNTS = struct.Struct("<4Qq")  # behind the header
_COUNT_NAMES = (
    *("ticks", "missed_ticks", "torn_samples", "samples_without_room"),
    "sampler_cpu_ns",
)
PAGE_BYTES = 4096
_HEAD = struct.Struct("<II")
RUN = struct.Struct("<qqIiII")
_CODE, _NODE, _THREAD, _RUN, _NAME = 1, 2, 3, 4, 5
_PAYLOADS = {
    _CODE: struct.Struct("<iHH"),
    _NODE: struct.Struct("<iIiI"),
    _THREAD: struct.Struct("<II"),
    _RUN: RUN,
    _NAME: struct.Struct("<II"),
}
_MAX_TEXT_BYTES = 1_400_000  # the metadata of a dump have 2 MB
_RETRIES = 5
_MAX_SAMPLES = 1 << 26  # of a file that is not damaged: 20 kHz, some minutes, and many threads

Run: TypeAlias = tuple[int, int, int, int, int, int]


def samples_path(records: str) -> str:
    """Return the path of the samples that belong to the records of a recorder."""
    return os.path.splitext(records)[0] + ".samples"


def read_header(file: BinaryIO) -> tuple[Any, ...]:
    """Return the fields of HEADER as they are now: the buffer of `file`, which may be older, is not used."""
    return HEADER.unpack(os.pread(file.fileno(), HEADER.size, 0))


def _read_parts(file: BinaryIO) -> tuple[tuple[Any, ...], list[bytes]]:
    """Return the header and the used bytes of both segments; none of a file without segments, or that changes."""
    for _ in range(_RETRIES):
        header = read_header(file)
        magic, segment_bytes, _, *segments = header
        if magic != MAGIC:
            break
        parts = []
        for i in range(2):
            size = min(segments[2 * i + 1], segment_bytes)
            parts.append(os.pread(file.fileno(), size, PAGE_BYTES + i * segment_bytes))
        if read_header(file)[3::2] == header[3::2]:
            return header, parts
    return header, []


def copied_samples(records: str) -> str:
    """Return the samples beside `records`, whose process may write them, as text for a dump; "" if there are none."""
    parts: list[bytes] = []
    with contextlib.suppress(OSError, struct.error), open(samples_path(records), "rb") as file:
        (_, segment_bytes, hz, *segments), parts = _read_parts(file)
    if not parts:
        return ""
    newest = 0 if segments[0] > segments[2] else 1
    while True:
        used = [len(part) for part in parts]
        head = HEADER.pack(MAGIC, segment_bytes, hz, segments[0], used[0], segments[2], used[1])
        text = base64.b64encode(zlib.compress(head + b"".join(parts), 6)).decode()
        if len(text) <= _MAX_TEXT_BYTES:
            return text
        parts = [b"" if i != newest else part for i, part in enumerate(parts)]
        if not used[1 - newest]:
            return ""


def read_sample_file(path: str) -> SampledStacks:
    """Return the samples in a file, whose process may write them.

    Its count "overwritten_segments" is that of the halves that newer samples have replaced. Raises OSError, or
    errors.FormatError if it has no samples, or damaged ones.
    """
    try:
        with open(path, "rb") as file:
            (_, _, hz, first, _, second, _), parts = _read_parts(file)
            counts = _COUNTS.unpack(os.pread(file.fileno(), _COUNTS.size, HEADER.size))
        if not parts or not hz > 0:
            raise errors.FormatError(f"the samples in {path} are damaged: invalid header")
        found = _joined(_segments(zip((first, second), parts, strict=True)), hz)
    except (ValueError, struct.error, IndexError, KeyError) as error:
        raise errors.FormatError(f"the samples in {path} are damaged: {error}") from error
    overwritten = max(first, second, 2) - 2
    named = zip(_COUNT_NAMES, counts, strict=True)
    return replace(found, counts={**dict(named), "overwritten_segments": overwritten})


def read_samples(text: str) -> SampledStacks:
    """Return the samples of a dump. Raises errors.FormatError if they are damaged."""
    try:
        raw = zlib.decompress(base64.b64decode(text))
        magic, _, hz, first, first_bytes, second, second_bytes = HEADER.unpack_from(raw)
        if magic != MAGIC or HEADER.size + first_bytes + second_bytes != len(raw) or not hz > 0:
            raise errors.FormatError("the samples of this dump are damaged: invalid header")
        middle = HEADER.size + first_bytes
        parts = [(first, raw[HEADER.size : middle]), (second, raw[middle:])]
        return _joined(_segments(parts), hz)
    except (ValueError, zlib.error, struct.error, IndexError, KeyError) as error:
        raise errors.FormatError(f"the samples of this dump are damaged: {error}") from error


def _segments(parts: Iterable[tuple[int, bytes]]) -> list[SampleSegment]:
    """Return the segments of numbered parts in their order."""
    segments = []
    for _, part in sorted(parts):
        segments.append(SampleSegment())
        segments[-1].feed(part)
    return segments


class SampleSegment:
    """What one half of the file holds; its numbers begin at 0. Not thread-safe.

    codes: (name, file, first line). nodes: (parent, code, line). threads: ids of the kernel; names: of some of them.
    runs: (first_ns, last_ns, thread, node, count, state); the sampler changes last_ns and count of a thread's last run
    in place.
    """

    def __init__(self) -> None:
        self.codes: list[tuple[str, str, int]] = []
        self.nodes: list[tuple[int, int, int]] = []
        self.threads: list[int] = []
        self.names: dict[int, str] = {}
        self.runs: list[Run] = []
        self.places: list[int] = []  # of the runs' payloads, in bytes from the segment's begin
        self.read_bytes = 0
        self._samples = 0

    def feed(self, part: bytes) -> None:
        """Add the records that follow those read so far. Raises IndexError or KeyError if they are damaged."""
        at = 0
        while at < len(part):
            kind, size = _HEAD.unpack_from(part, at)
            payload = _PAYLOADS[kind]
            if size < _HEAD.size + payload.size or at + size > len(part):
                raise IndexError(f"a record at byte {self.read_bytes + at}")
            fields = payload.unpack_from(part, at + _HEAD.size)
            if kind == _RUN:
                self._add_run(fields, self.read_bytes + at + _HEAD.size)
            elif kind == _NODE:
                parent, code, line, _ = fields
                if not -1 <= parent < len(self.nodes) or code >= len(self.codes):
                    raise IndexError(f"a frame at byte {self.read_bytes + at}")
                self.nodes.append((parent, code, line))
            elif kind == _THREAD:
                self.threads.append(fields[0])
            elif kind == _NAME:
                thread, name_bytes = fields
                begin = at + _HEAD.size + payload.size
                if thread >= len(self.threads) or begin + name_bytes > at + size:
                    raise IndexError(f"a name at byte {self.read_bytes + at}")
                self.names[thread] = part[begin : begin + name_bytes].decode("utf-8", "replace")
            else:
                line, name_bytes, file_bytes = fields
                begin = at + _HEAD.size + payload.size
                name = part[begin : begin + name_bytes].decode("utf-8", "replace")
                begin += name_bytes
                file = part[begin : begin + file_bytes].decode("utf-8", "replace")
                self.codes.append((name, file, line))
            at += size
        self.read_bytes += len(part)

    def forget_before(self, begin_ns: int) -> None:
        """Forget runs that ended before, but the last one of each thread, which may go on."""
        last = {run[2]: at for at, run in enumerate(self.runs)}
        kept = [at for at, run in enumerate(self.runs) if run[1] > begin_ns or last[run[2]] == at]
        self.runs = [self.runs[at] for at in kept]
        self.places = [self.places[at] for at in kept]

    def _add_run(self, run: Run, place: int) -> None:
        first_ns, last_ns, thread, node, count, _ = run
        if not -1 <= node < len(self.nodes) or thread >= len(self.threads) or first_ns > last_ns:
            raise IndexError(f"a run at byte {place}")
        self._samples += count
        if self._samples > _MAX_SAMPLES:
            raise IndexError(f"a run of {count} samples at byte {place}")
        self.runs.append(run)
        self.places.append(place)


def _joined(segments: list[SampleSegment], hz: float) -> SampledStacks:
    codes: list[tuple[str, str, int]] = []
    nodes: list[tuple[int, int, int]] = []
    runs: list[Run] = []
    # Id of the kernel, which is used again, and name -> number.
    threads: dict[tuple[int, str], int] = {}
    for each in segments:
        named = ((tid, each.names.get(i, f"thread {tid}")) for i, tid in enumerate(each.threads))
        number = [threads.setdefault(thread, len(threads)) for thread in named]
        first_code, first_node = len(codes), len(nodes)
        codes += each.codes
        nodes += [
            (parent + first_node if parent >= 0 else -1, code + first_code, line)
            for parent, code, line in each.nodes
        ]
        runs += [
            (first, last, number[thread], node + first_node if node >= 0 else -1, count, state)
            for first, last, thread, node, count, state in each.runs
        ]
    run = np.array(runs, np.int64).reshape(-1, 6)
    frame = np.array(nodes, np.int64).reshape(-1, 3)
    return SampledStacks(
        hz=hz,
        first_ns=run[:, 0],
        last_ns=run[:, 1],
        thread=run[:, 2].astype(np.uint32),
        node=run[:, 3].astype(np.int32),
        count=run[:, 4].astype(np.uint32),
        state=run[:, 5].astype(np.uint8),
        parent=frame[:, 0].astype(np.int32),
        code=frame[:, 1].astype(np.uint32),
        line=frame[:, 2].astype(np.int32),
        codes=tuple(codes),
        threads=tuple(threads),
        counts={},
    )
