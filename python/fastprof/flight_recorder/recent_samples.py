# SPDX-License-Identifier: Apache-2.0
"""SampleFollower: the samples of the last seconds, from the file of a sampler that goes on."""

from __future__ import annotations

import os
import struct
from collections import Counter
from typing import Any, BinaryIO

from fastprof.decode.sample_file import (
    MAGIC,
    PAGE_BYTES,
    RUN,
    SampleSegment,
    read_header,
    samples_path,
)
from fastprof.model.sampled_stacks import ON_CPU
from fastprof.profiler.stack_sampling import is_start

__all__ = ["SampleFollower"]


class SampleFollower:
    """Reads the file of a running sampler again and again, each time only what is new. Not thread-safe."""

    def __init__(self, records: str) -> None:
        self.hz = 0.0
        self._path = samples_path(records)
        self._segments = [(0, SampleSegment()), (0, SampleSegment())]  # with their numbers

    def recent(self, seconds: float) -> list[tuple[SampleSegment, int, int, int]]:
        """Return the runs of the last `seconds` of samples: (segment, node, samples in these seconds, state).

        None, if there is no such file. A half that is damaged, or was begun again meanwhile, is left out.
        """
        try:
            with open(self._path, "rb") as file:
                self._read(file)
        except (OSError, struct.error):
            return []
        kept = [segment for _, segment in self._segments]
        newest_ns = max((run[1] for each in kept for run in each.runs), default=0)
        begin_ns = newest_ns - int(seconds * 1e9)
        found = []
        for segment in kept:
            segment.forget_before(begin_ns)
            for first_ns, last_ns, _, node, count, state in segment.runs:
                if last_ns > begin_ns:
                    inside = (last_ns - max(first_ns, begin_ns)) / max(last_ns - first_ns, 1)
                    found.append((segment, node, max(1, round(count * inside)), state))
        return found

    def _read(self, file: BinaryIO) -> None:
        magic, segment_bytes, self.hz, *numbers = read_header(file)
        descriptor = file.fileno()
        for i in range(2 if magic == MAGIC else 0):
            number, used = numbers[2 * i], min(numbers[2 * i + 1], segment_bytes)
            known, segment = self._segments[i]
            if known != number:
                segment = SampleSegment()
            begin = PAGE_BYTES + i * segment_bytes
            size = max(used - segment.read_bytes, 0)
            part = os.pread(descriptor, size, begin + segment.read_bytes)
            try:
                for at, place in enumerate(segment.places):
                    segment.runs[at] = RUN.unpack(os.pread(descriptor, RUN.size, begin + place))
                segment.feed(part)
            except (IndexError, KeyError, struct.error):
                number, segment = 0, SampleSegment()
            self._segments[i] = number, segment
        after = read_header(file)[3:]
        for i in range(2):
            if after[2 * i] != self._segments[i][0]:  # begun again while it was read
                self._segments[i] = 0, SampleSegment()

    def functions(self, seconds: float, most: int) -> list[dict[str, Any]]:
        """Return where threads were in the last `seconds`, by time on CPUs, as values that JSON can represent.

        [{name, file, running_share, waiting_share}]: time that threads spent in the function itself, on a CPU and
        off it, as shares of the seconds. Threads outside of Python code are left out.
        """
        running: Counter[tuple[str, str]] = Counter()
        waiting: Counter[tuple[str, str]] = Counter()
        for segment, node, count, state in self.recent(seconds):
            if node >= 0:
                name, file, _ = segment.codes[segment.nodes[node][1]]
                if not is_start(file):
                    (running if state & ON_CPU else waiting)[name, file] += count
        ticks = max(self.hz * seconds, 1e-9)
        order = sorted(running | waiting, key=lambda each: (-running[each], -waiting[each], each))
        return [
            {
                "name": name,
                "file": file,
                "running_share": running[name, file] / ticks,
                "waiting_share": waiting[name, file] / ticks,
            }
            for name, file in order[:most]
        ]
