# SPDX-License-Identifier: Apache-2.0
"""What the checks run on a GPU: PyTorch on a real one, or the double of libcupti in its place."""

from __future__ import annotations

import ctypes
import os
import sys
import time
from collections.abc import Callable
from typing import Any, Protocol

__all__ = ["DOUBLE", "Gpu", "open_gpu", "reason_without"]

# Names the library of tests/doubles/cuda, with FASTPROF_CUPTI_LIBRARY: the checks then test themselves.
DOUBLE = "FASTPROF_GPU_CHECK_DOUBLE"


class Gpu(Protocol):
    """A device, and work of known kinds on it."""

    kernels_of_step: int  # at least
    is_double: bool

    def facts(self) -> dict[str, Any]: ...
    def step(self) -> None: ...
    def launch(self) -> None: ...
    def copies(self) -> dict[str, int]: ...
    def on_streams(self, count: int) -> None: ...
    def graph(self) -> Callable[[], None] | None: ...
    def synchronize(self) -> None: ...
    def time_us(self, work: Callable[[], None]) -> float | None: ...


def reason_without() -> str | None:
    """Return why there is nothing to check on this machine; None if there is a GPU (or the double)."""
    if os.environ.get(DOUBLE):
        return None
    try:
        import torch
    except ImportError as error:
        return f"PyTorch cannot be imported ({error}). Install a build of PyTorch for CUDA."
    if torch.version.cuda is None:
        return f"PyTorch {torch.__version__} is a build without CUDA. Install one for CUDA."
    if not torch.cuda.is_available():
        return (
            "PyTorch finds no CUDA device (torch.cuda.is_available() is False). Run this on a machine with"
            " an NVIDIA GPU and its driver; in a container, pass the GPU in."
        )
    return None


def open_gpu() -> Gpu:
    """Return the device that the checks run on."""
    return _Double() if os.environ.get(DOUBLE) else _Torch()


class _Torch:
    """PyTorch on the current CUDA device."""

    kernels_of_step = 2
    is_double = False

    def __init__(self) -> None:
        import torch

        self.torch = torch
        self.a = torch.rand(1024, 1024, device="cuda")
        self.b = torch.rand(1024, 1024, device="cuda")
        self.small = torch.zeros(16, device="cuda")
        self.step()
        self.launch()
        self.synchronize()

    def facts(self) -> dict[str, Any]:
        torch = self.torch
        properties = torch.cuda.get_device_properties(0)
        return {
            "device": properties.name,
            "capability": f"{properties.major}.{properties.minor}",
            "devices": torch.cuda.device_count(),
            "torch": torch.__version__,
            "cuda": torch.version.cuda,
            "python": sys.version.split()[0],
        }

    def step(self) -> None:
        self.torch.relu(self.a @ self.b)

    def launch(self) -> None:
        self.small.add_(1.0)

    def copies(self) -> dict[str, int]:
        """One of each kind; returns how many rows of each name's beginning are expected at least."""
        torch = self.torch
        host = torch.ones(1 << 20)
        pinned = torch.ones(1 << 20).pin_memory()
        device = host.cuda()
        pinned.cuda(non_blocking=True)
        device.clone()
        device.cpu()
        torch.zeros(1 << 20, device="cuda")
        self.synchronize()
        return {"Memcpy HtoD": 2, "Memcpy DtoH": 1}

    def on_streams(self, count: int) -> None:
        streams = [self.torch.cuda.Stream() for _ in range(count)]
        for stream in streams:
            with self.torch.cuda.stream(stream):
                self.step()
        self.synchronize()

    def graph(self) -> Callable[[], None] | None:
        graph = self.torch.cuda.CUDAGraph()
        side = self.torch.cuda.Stream()
        side.wait_stream(self.torch.cuda.current_stream())
        with self.torch.cuda.stream(side):
            self.step()
        self.torch.cuda.current_stream().wait_stream(side)
        with self.torch.cuda.graph(graph):
            self.step()
        replay: Callable[[], None] = graph.replay
        return replay

    def synchronize(self) -> None:
        self.torch.cuda.synchronize()

    def time_us(self, work: Callable[[], None]) -> float | None:
        begin = self.torch.cuda.Event(enable_timing=True)
        end = self.torch.cuda.Event(enable_timing=True)
        begin.record()
        work()
        end.record()
        end.synchronize()
        return float(begin.elapsed_time(end)) * 1000


class _Double:
    """The double of libcupti, which plays the program's part of CUDA, too."""

    kernels_of_step = 2
    is_double = True

    def __init__(self) -> None:
        self.library = ctypes.CDLL(os.environ["FASTPROF_CUPTI_LIBRARY"])

    def facts(self) -> dict[str, Any]:
        return {"device": "double of libcupti", "devices": 1, "python": sys.version.split()[0]}

    def _kernel(self, name: bytes, stream: int = 7) -> None:
        self.library.fake_launch(ctypes.c_char_p(name), 0, stream, ctypes.c_uint64(20000))

    def step(self, stream: int = 7) -> None:
        self._kernel(b"_Z4gemmPfS_i", stream)
        self._kernel(b"_Z4reluPf", stream)

    def launch(self) -> None:
        self._kernel(b"_Z3addPf")

    def copies(self) -> dict[str, int]:
        for kind, source, to in ((1, 1, 3), (1, 2, 3), (8, 3, 3), (2, 3, 1)):
            size, time = ctypes.c_uint64(1 << 22), ctypes.c_uint64(20000)
            self.library.fake_memcpy(kind, source, to, size, 0, 7, time)
        self.library.fake_memset(ctypes.c_uint64(1 << 22), 0, 7, ctypes.c_uint64(9000))
        return {"Memcpy HtoD": 2, "Memcpy DtoH": 1, "Memcpy DtoD": 1, "Memset": 1}

    def on_streams(self, count: int) -> None:
        for stream in range(count):
            self.step(20 + stream)

    def graph(self) -> Callable[[], None] | None:
        self.library.fake_graph_capture()

        def replay() -> None:
            name = ctypes.c_char_p(b"_Z4gemmPfS_i")
            self.library.fake_graph_launch(name, 0, 7, ctypes.c_uint64(1000), 2)

        return replay

    def synchronize(self) -> None:
        # The double stamps work as if it ran, and has nothing to wait for: the longest queue here takes 2 ms.
        time.sleep(0.01)

    def time_us(self, work: Callable[[], None]) -> float | None:
        work()
        return None  # it has no events
