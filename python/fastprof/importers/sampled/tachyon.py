# SPDX-License-Identifier: Apache-2.0
"""Binary files of Python's sampling profiler (3.15 and later: `python -m profiling.sampling record --binary`).

Format: InternalDocs/profiling_binary_format.md of CPython. A header of 64 bytes; records of samples, which may be one
zstd stream; the tables of texts and frames; a footer of 32 bytes. Numbers of fixed size are in the writer's byte
order, others are LEB128. A record has a thread, an interpreter, and one sample or several: the us since the thread's
previous sample, the thread's state, and how its stack differs from the previous one. Frames are listed from the
innermost on. The states of threads (GIL, on a CPU) are not read.
"""

from __future__ import annotations

import io
import struct
from typing import Any, BinaryIO, NamedTuple

from fastprof.base import errors
from fastprof.importers.sampled.stack_rows import StackRows, StackTree, malformed
from fastprof.importers.sampled.whole_file import whole_file
from fastprof.importers.source import Source
from fastprof.model.table import EventTable

__all__ = ["read_tachyon"]

_BYTES_A_BYTE = 40  # memory that rows and the tables take
_HEADER_BYTES, _FOOTER_BYTES = 64, 32
_PIECE_BYTES = 1 << 20
# Pre-releases of 3.15 counted samples in 32 bits, later ones in 64 bits, under the same version of the format.
_HEADERS = ("IIBBBxQQQIQQI", "IIBBBxQQIIQQI")
_VERSION = 1
_REPEAT, _FULL, _SUFFIX, _POP_PUSH = 0, 1, 2, 3
_NO_FILE = "~"  # of frames such as <GC> and <native>


class _Header(NamedTuple):
    magic: int
    version: int
    major: int
    minor: int
    micro: int
    start_us: int
    interval_us: int
    samples: int
    threads: int
    texts_at: int
    frames_at: int
    compression: int


def read_tachyon(source: Source) -> EventTable:
    """Return the rows of a file: a track for each thread of each interpreter.

    Raises errors.FormatError for a malformed file, and if its samples are compressed and no decompressor is installed.
    """
    data = whole_file(source, _BYTES_A_BYTE)
    order = "<" if data[:4] == b"HCAT" else ">"
    with malformed(source):
        header = _header(data, order)
        packed = data[_HEADER_BYTES : header.texts_at]
        samples = _decompressed(source, packed) if header.compression else packed
        rows = StackRows(source, "tachyon")
        frames = _frames(
            rows, data, header, *struct.unpack_from(order + "II", data, len(data) - _FOOTER_BYTES)
        )
        _Records(rows, samples, order, frames, header).read()
        if rows.samples != header.samples:
            raise errors.FormatError(f"{rows.samples} samples, the header says {header.samples}")
        version = f"{header.major}.{header.minor}.{header.micro}"
        return rows.finish(python=version, sample_interval_us=header.interval_us)


def _header(data: bytes, order: str) -> _Header:
    version = struct.unpack_from(order + "I", data, 4)[0] if len(data) >= 8 else 0
    if version > _VERSION:
        raise errors.FormatError(
            f"version {version} of profiling.sampling's format is not known: convert the file with "
            "`python -m profiling.sampling replay --gecko FILE`"
        )
    last = len(data) - _FOOTER_BYTES
    for layout in _HEADERS if last >= _HEADER_BYTES else ():
        header = _Header(*struct.unpack_from(order + layout, data))
        if _HEADER_BYTES <= header.texts_at <= header.frames_at <= last and header.compression <= 1:
            size = struct.unpack_from(order + "Q", data, last + 8)[0]
            if size == len(data):
                return header
    raise errors.FormatError(
        f"the file is truncated or damaged: its tables are not where a file of {len(data)} bytes has them. "
        "Its samples cannot be read in part: copy or record it again."
    )


def _decompressed(source: Source, packed: bytes) -> bytes:
    stream, damage = _zstd(packed)
    pieces, size = [], 0
    try:
        while piece := stream.read(_PIECE_BYTES):
            pieces.append(piece)
            size += len(piece)
            source.budget.check(_BYTES_A_BYTE * size)
    except (damage, EOFError) as error:
        raise errors.FormatError(f"damaged zstd data: {error}") from None
    return b"".join(pieces)


def _zstd(packed: bytes) -> tuple[BinaryIO, Any]:
    """Return a stream of the decompressed bytes, and the exception that it raises."""
    try:
        from compression import zstd  # Python 3.14 and later
    except ImportError:
        try:
            import zstandard
        except ImportError:
            raise errors.FormatError(
                "the samples are compressed with zstd, which needs Python 3.14 or the package zstandard: "
                "`pip install zstandard`, or record with --compression none"
            ) from None
        reader = zstandard.ZstdDecompressor().stream_reader(packed, read_across_frames=True)
        return reader, zstandard.ZstdError
    return zstd.ZstdFile(io.BytesIO(packed)), zstd.ZstdError


class _Numbers:
    """Reads LEB128 numbers of `data` from `at` on."""

    def __init__(self, data: bytes, at: int = 0) -> None:
        self.data, self.at = data, at

    def unsigned(self) -> int:
        value = shift = 0
        while True:
            byte = self.data[self.at]
            self.at += 1
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
            shift += 7
            if shift > 63:
                raise errors.FormatError(f"offset {self.at}: a number is too long")

    def signed(self) -> int:
        value = self.unsigned()
        return value >> 1 ^ -(value & 1)


def _frames(rows: StackRows, data: bytes, header: _Header, texts: int, frames: int) -> list[int]:
    source = _Numbers(data, header.texts_at)
    names = []
    for _ in range(texts):
        size = source.unsigned()
        if source.at + size > header.frames_at:
            raise errors.FormatError(f"offset {source.at}: a text is longer than the table")
        names.append(data[source.at : source.at + size].decode("utf-8", "replace"))
        source.at += size
    source = _Numbers(data, header.frames_at)
    made = []
    for _ in range(frames):
        file, name, line = names[source.unsigned()], names[source.unsigned()], source.signed()
        for _ in range(3):  # the last line, and columns
            source.signed()
        source.at += 1  # the opcode
        made.append(rows.frame(name, "" if file == _NO_FILE else file, line))
    return made


class _Thread:
    def __init__(self, track: int, start_us: int) -> None:
        self.track, self.at_us = track, start_us
        self.tree = StackTree()
        self.nodes: list[int] = []  # of the frames on the stack, outermost first
        self.samples: list[tuple[int, int]] = []  # ns, node


class _Records:
    def __init__(
        self, rows: StackRows, data: bytes, order: str, frames: list[int], header: _Header
    ) -> None:
        self._rows, self._order, self._frames, self._header = rows, order, frames, header
        self._source = _Numbers(data)
        self._threads: dict[tuple[int, int], _Thread] = {}

    def read(self) -> None:
        """Add the rows of all records."""
        while self._source.at < len(self._source.data):
            self._record()
        for thread in self._threads.values():
            end_us = thread.at_us + self._header.interval_us
            self._rows.add_samples(thread.track, thread.tree, thread.samples, 1000 * end_us)

    def _record(self) -> None:
        source = self._source
        begin = source.at
        if begin + 13 > len(source.data):
            raise errors.FormatError(f"sample data end within a record, at {begin}")
        key = struct.unpack_from(self._order + "QI", source.data, begin)
        kind = source.data[begin + 12]
        source.at += 13
        thread = self._threads.get(key)
        if thread is None:
            track = self._rows.track("", 0, key[0], key)
            thread = self._threads[key] = _Thread(track, self._header.start_us)
        if kind == _REPEAT:
            for _ in range(source.unsigned()):
                self._sample(thread, self._us_and_state())
            return
        passed_us = self._us_and_state()
        if kind == _FULL:
            kept = 0
        elif kind == _SUFFIX:
            kept = source.unsigned()
        elif kind == _POP_PUSH:
            kept = len(thread.nodes) - source.unsigned()
        else:
            raise errors.FormatError(f"sample data at {begin}: unknown record {kind}")
        if not 0 <= kept <= len(thread.nodes):
            raise errors.FormatError(f"sample data at {begin}: a stack has no {kept} frames")
        new = [self._frames[source.unsigned()] for _ in range(source.unsigned())]
        del thread.nodes[kept:]
        for frame in reversed(new):
            thread.nodes.append(thread.tree.child(thread.nodes[-1] if thread.nodes else -1, frame))
        self._sample(thread, passed_us)

    def _us_and_state(self) -> int:
        passed_us = self._source.unsigned()
        self._source.at += 1
        return passed_us

    def _sample(self, thread: _Thread, passed_us: int) -> None:
        thread.at_us += passed_us
        node = thread.nodes[-1] if thread.nodes else -1
        if thread.samples and thread.samples[-1][1] == node:
            self._rows.samples += 1  # lasts on: a compressed file may have billions of these
        else:
            thread.samples.append((1000 * thread.at_us, node))
