# SPDX-License-Identifier: Apache-2.0
"""A client of libcupti by ctypes, without fastprof: another tool in the process that takes CUPTI's records."""

from __future__ import annotations

import ctypes
import os
from typing import Any

__all__ = ["RawClient"]

_BUFFER_BYTES = 1 << 20
_KINDS = (5, 10)  # CUpti_ActivityKind: calls of the runtime, kernels
_REQUEST = ctypes.CFUNCTYPE(
    None,
    ctypes.POINTER(ctypes.c_void_p),
    ctypes.POINTER(ctypes.c_size_t),
    ctypes.POINTER(ctypes.c_size_t),
)
_COMPLETE = ctypes.CFUNCTYPE(
    None, ctypes.c_void_p, ctypes.c_uint32, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_size_t
)
_CALLBACK = ctypes.CFUNCTYPE(
    None, ctypes.c_void_p, ctypes.c_uint32, ctypes.c_uint32, ctypes.c_void_p
)
_kept: list[object] = []  # CUPTI may call back until the process ends


def _load_library() -> ctypes.CDLL:
    """Return libcupti: the chosen file, the one of NVIDIA's packages, or what the loader finds."""
    from fastprof.record.cuda import cupti_candidates

    chosen = os.environ.get("FASTPROF_CUPTI_LIBRARY")
    tried = []
    for path in (
        [chosen] if chosen else [*cupti_candidates(), "libcupti.so.13", "libcupti.so.12", "libcupti.so"]
    ):  # fmt: skip
        try:
            return ctypes.CDLL(path)
        except OSError as error:
            tried.append(str(error))
    raise OSError("; ".join(tried))


class RawClient:
    """Collects records of calls and kernels, with or without a subscription, and discards them."""

    def __init__(self) -> None:
        self.library = _load_library()
        self._held: list[ctypes.Array[ctypes.c_char]] = []
        self._subscriber = ctypes.c_void_p()
        self._callbacks = (_REQUEST(self._request), _COMPLETE(lambda *_: None))
        self._nothing = _CALLBACK(lambda *_: None)
        _kept.append(self)

    def _request(self, buffer: Any, size: Any, most: Any) -> None:
        memory = ctypes.create_string_buffer(_BUFFER_BYTES + 8)
        self._held.append(memory)
        address = (ctypes.addressof(memory) + 7) // 8 * 8
        buffer[0], size[0], most[0] = address, _BUFFER_BYTES, 0

    def subscribe(self) -> bool:
        """Become the client; return whether CUPTI accepts it."""
        code = self.library.cuptiSubscribe(ctypes.byref(self._subscriber), self._nothing, None)
        return bool(code == 0)

    def unsubscribe(self) -> None:
        self.library.cuptiUnsubscribe(self._subscriber)

    def begin(self) -> None:
        """Register buffers and enable the kinds; works without a subscription."""
        self.library.cuptiActivityRegisterCallbacks(*self._callbacks)
        for kind in _KINDS:
            self.library.cuptiActivityEnable(kind)

    def end(self) -> None:
        """Flush the records and disable the kinds."""
        self.library.cuptiActivityFlushAll(1)
        for kind in _KINDS:
            self.library.cuptiActivityDisable(kind)
