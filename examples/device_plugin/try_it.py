# SPDX-License-Identifier: Apache-2.0
"""Profile the toy accelerator: python try_it.py build/libtoy_npu_fastprof.so."""

from __future__ import annotations

import ctypes
import sys

import fastprof

path = sys.argv[1]
npu = ctypes.CDLL(path)  # what a program does with the accelerator
npu.toy_npu_launch.argtypes = (ctypes.c_char_p, ctypes.c_int, ctypes.c_int, ctypes.c_uint64)
npu.toy_npu_copy.argtypes = (ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_uint64)

device = fastprof.devices.register(path)
print("activities:", sorted(a.name for a in fastprof.supported_activities()))

with fastprof.profile(use_device=device.name) as prof:
    with fastprof.record_function("step"):
        npu.toy_npu_copy(1 << 20, 0, 0, 200_000)
        for _ in range(3):
            npu.toy_npu_launch(b"matmul_16x16", 0, 0, 500_000)

print(prof.key_averages().table(sort_by="self_device_time_total"))
prof.export_chrome_trace("toynpu.json")
