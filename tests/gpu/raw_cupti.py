# SPDX-License-Identifier: Apache-2.0
"""How the real libcupti delivers records, seen without fastprof: facts for the double in tests/doubles/cuda.

A client of its own, by ctypes: which threads deliver buffers, in which order records come, and what is
dropped. Only the beginning of records is read, which all versions share.
"""

from __future__ import annotations

import ctypes
import os
import threading
from collections.abc import Callable
from typing import Any

__all__ = ["observe_delivery"]

_BUFFER_BYTES = 1 << 20
_kept: list[object] = []
_KINDS = {1: "memcpy", 2: "memset", 5: "runtime", 10: "concurrent_kernel"}

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


class _Call(ctypes.Structure):
    """The beginning of CUpti_ActivityAPI."""

    _fields_ = (
        ("kind", ctypes.c_uint32),
        ("cbid", ctypes.c_uint32),
        ("start", ctypes.c_uint64),
        ("end", ctypes.c_uint64),
        ("process", ctypes.c_uint32),
        ("thread", ctypes.c_uint32),
        ("correlation", ctypes.c_uint32),
    )


def _load() -> ctypes.CDLL:
    from fastprof.record.cuda import _libraries

    chosen = os.environ.get("FASTPROF_CUPTI_LIBRARY")
    tried = []
    for path in (
        [chosen] if chosen else [*_libraries(), "libcupti.so.13", "libcupti.so.12", "libcupti.so"]
    ):
        try:
            return ctypes.CDLL(path)
        except OSError as error:
            tried.append(str(error))
    raise OSError("; ".join(tried))


def observe_delivery(work: Callable[[], None], synchronize: Callable[[], None]) -> dict[str, Any]:
    """Collect the records of `work` from two threads at once, and return facts of their delivery."""
    library = _load()
    buffers: list[tuple[int, ctypes.Array[ctypes.c_char], int]] = []
    held: dict[int, ctypes.Array[ctypes.c_char]] = {}

    def request(buffer: Any, size: Any, most: Any) -> None:
        memory = ctypes.create_string_buffer(_BUFFER_BYTES + 8)
        address = (ctypes.addressof(memory) + 7) // 8 * 8
        held[address] = memory
        buffer[0], size[0], most[0] = address, _BUFFER_BYTES, 0

    def complete(_context: Any, _stream: int, buffer: int, _size: int, valid: int) -> None:
        buffers.append((threading.get_native_id(), held[buffer], valid))

    # CUPTI may call them until the process ends.
    callbacks = (_REQUEST(request), _COMPLETE(complete), _CALLBACK(lambda *_: None))
    _kept.append((callbacks, held))
    subscriber = ctypes.c_void_p()
    answers = {"subscribe": library.cuptiSubscribe(ctypes.byref(subscriber), callbacks[2], None)}
    if answers["subscribe"] != 0:
        return {"answers": answers}
    answers["register"] = library.cuptiActivityRegisterCallbacks(callbacks[0], callbacks[1])
    for kind, name in _KINDS.items():
        answers[f"enable {name}"] = library.cuptiActivityEnable(kind)
    together = threading.Barrier(2)  # an ended thread's id may be given to the next

    def work_beside() -> None:
        together.wait()
        work()
        together.wait()

    threads = [threading.Thread(target=work_beside) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    synchronize()
    answers["flush"] = library.cuptiActivityFlushAll(1)
    dropped = ctypes.c_size_t()
    answers["dropped"] = library.cuptiActivityGetNumDroppedRecords(None, 0, ctypes.byref(dropped))
    for kind in _KINDS:
        library.cuptiActivityDisable(kind)
    library.cuptiUnsubscribe(subscriber)
    counts: dict[str, int] = {}
    unordered, calling, mixed, before = 0, set(), 0, 0
    for _, memory, valid in buffers:
        address = ctypes.c_void_p((ctypes.addressof(memory) + 7) // 8 * 8)
        record = ctypes.c_void_p()
        of_buffer = set()
        while (
            library.cuptiActivityGetNextRecord(
                address, ctypes.c_size_t(valid), ctypes.byref(record)
            )
            == 0
        ):
            call = ctypes.cast(record, ctypes.POINTER(_Call)).contents
            name = _KINDS.get(call.kind, f"kind {call.kind}")
            counts[name] = counts.get(name, 0) + 1
            if name == "runtime":
                calling.add(call.thread)
                of_buffer.add(call.thread)
                unordered += call.start < before
                before = call.start
        mixed += len(of_buffer) > 1
    delivering = {thread for thread, _, _ in buffers}
    return {
        "answers": answers,
        "buffers": len(buffers),
        "records": counts,
        "delivering_threads": len(delivering),
        "delivered_by_the_flushing_thread": threading.get_native_id() in delivering,
        "calling_threads": len(calling),
        "buffers_with_calls_of_several_threads": mixed,
        "calls_that_come_after_a_later_one": unordered,
        "dropped": dropped.value,
    }
