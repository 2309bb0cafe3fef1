# SPDX-License-Identifier: Apache-2.0
"""The text of a memory report, line by line."""

from __future__ import annotations

from fastprof.analysis.memory_blocks import MemorySums
from fastprof.analysis.memory_summary import (
    DeviceReport,
    Failure,
    MemoryPart,
    MemoryReport,
    Temporary,
)
from fastprof.analysis.memory_text import memory_text

MB = 1 << 20
CUDA = DeviceReport(
    "cuda:0",
    MemorySums("cuda:0", 10 * MB, 5 * MB, 3 * MB, 12 * MB, 2),
    14 * MB,
    2_500_000,
    {"input": 4 * MB, "parameter": 10 * MB},
    [
        MemoryPart(10 * MB, 3, "parameter", ("step", "outer", "inner"), ("a.py(3): f", "b.py(4): g"), 5),
        MemoryPart(4 * MB, 1, "input", (), ("a.py(3): f",), -1),
    ],
    [Temporary(MB, 7_000, ("step",), ()), Temporary(1, 1, (), ())],
)  # fmt: skip
PLAIN = DeviceReport(
    "cpu:0", MemorySums("cpu:0", 0, 100, 40, 70, 0), 100, 1000, {}, [MemoryPart(100, 2, "", (), ())], []
)  # fmt: skip
FAILED = [
    Failure("cuda:0", 3_000_000, 64 * MB, ("step",), ("a.py(9): h",), 4),
    Failure("cuda:0", 4_000_000, 128 * MB, ("step", "outer", "inner"), (), 6),
    Failure("cuda:0", 5_000_000, MB, (), (), 8),
]
WHOLE = """\
Memory of cuda:0: peak 14.00 MB (14,680,064 bytes) at 2.500ms
in use at the begin 10,485,760 + allocated 5,242,880 - freed 3,145,728 = 12,582,912 bytes in use at the end
the frees of 2 blocks are not in the recording
at the peak: input 4.00 MB, parameter 10.00 MB

What the peak consists of
       Bytes   Share  Blocks   Category  Allocated in
  10,485,760  71.4 %       3  parameter  step > outer > inner at a.py(3): f
   4,194,304  28.6 %       1      input  at a.py(3): f

Longest-lived temporaries (by bytes times life)
      Bytes     Life  Allocated in
  1,048,576  7.000us  step
          1  0.001us  outside of any range

Memory of cpu:0: peak 100 B (100 bytes) at 1.000us
in use at the begin 0 + allocated 100 - freed 40 = 70 bytes in use at the end
these records disagree by -10 bytes: frees and allocations of one block have different sizes, or records were dropped

What the peak consists of
  Bytes    Share  Blocks  Allocated in
    100  100.0 %       2  before the recording

Out of memory: 3 requests failed
  Requested     Time  Device  In
   64.00 MB  3.000ms  cuda:0  step at a.py(9): h
  128.00 MB  4.000ms  cuda:0  step > outer > inner
    1.00 MB  5.000ms  cuda:0  outside of any range"""


def test_the_whole_text() -> None:
    assert memory_text(MemoryReport([CUDA, PLAIN], FAILED), 10) == WHOLE
