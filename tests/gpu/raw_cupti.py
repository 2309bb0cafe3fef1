# SPDX-License-Identifier: Apache-2.0
"""A client of libcupti by ctypes, without fastprof: what the real library does, for tests/doubles/cuda.

Only the beginning of records is read, which all versions share.
"""

from __future__ import annotations

import ctypes
import os
import struct
import threading
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable
from typing import Any, NamedTuple

__all__ = ["KINDS", "RawClient", "Row", "load_library", "observe_delivery"]

_BUFFER_BYTES = 1 << 20
# CUpti_ActivityKind
KINDS = {
    "memcpy": 1, "memset": 2, "driver": 4, "runtime": 5, "concurrent_kernel": 10, "overhead": 17,
    "memcpy2": 22, "cuda_event": 36, "synchronization": 38,
}  # fmt: skip
_NAMES = {number: name for name, number in KINDS.items()}
_ZEROED_BUFFERS = 5  # CUPTI_ACTIVITY_ATTR_ZEROED_OUT_ACTIVITY_BUFFER
_DRIVER, _RUNTIME = 1, 2  # CUpti_CallbackDomain
# Offsets of start, end, correlation and thread in a record; None: it has none.
_FIELDS: dict[str, tuple[int, int, int | None, int | None]] = {
    "memcpy": (16, 24, 44, None),
    "memset": (16, 24, 44, None),
    "driver": (8, 16, 32, 28),
    "runtime": (8, 16, 32, 28),
    "concurrent_kernel": (16, 24, 92, None),
    "overhead": (24, 32, None, 16),
    "memcpy2": (16, 24, 60, None),
    "synchronization": (8, 16, 24, None),
}

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


class Row(NamedTuple):
    """A record: stamps of CUPTI's clock in ns; cbid is a call's number, else 0."""

    kind: str
    start: int
    end: int
    correlation: int
    thread: int
    cbid: int


class SubscriberParams(ctypes.Structure):
    """CUpti_SubscriberParams of CUDA 13.0."""

    _fields_ = (
        ("size", ctypes.c_size_t),
        ("name", ctypes.c_char_p),
        ("old_name", ctypes.c_char_p),
        ("old_size", ctypes.c_size_t),
    )


def load_library() -> ctypes.CDLL:
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
    """Collects records of some kinds, with or without a subscription."""

    def __init__(self) -> None:
        self.library = load_library()
        self.answers: dict[str, float | str] = {}
        self._buffers: list[tuple[int, int, int]] = []  # delivering thread, address, valid bytes
        self._held: dict[int, ctypes.Array[ctypes.c_char]] = {}
        self.foreign_buffers = 0
        self.requested = 0
        self._subscriber = ctypes.c_void_p()
        self._callbacks = (_REQUEST(self._request), _COMPLETE(self._complete))
        self._nothing = _CALLBACK(lambda *_: None)
        _kept.append(self)

    def _request(self, buffer: Any, size: Any, most: Any) -> None:
        memory = ctypes.create_string_buffer(_BUFFER_BYTES + 8)
        address = (ctypes.addressof(memory) + 7) // 8 * 8
        self._held[address] = memory
        self.requested += 1
        buffer[0], size[0], most[0] = address, _BUFFER_BYTES, 0

    def _complete(self, _context: Any, _stream: int, buffer: int, _size: int, valid: int) -> None:
        if buffer not in self._held:
            self.foreign_buffers += 1  # whoever requested it owns it
            return
        self._buffers.append((threading.get_native_id(), buffer, valid))

    def subscribe(self) -> bool:
        """Become the client; return whether CUPTI accepts it."""
        code = self.library.cuptiSubscribe(ctypes.byref(self._subscriber), self._nothing, None)
        self.answers["subscribe"] = code
        return code == 0

    def holder(self) -> str:
        """Return what cuptiSubscribe_v2 says of the present client; subscribes if there is none."""
        function = getattr(self.library, "cuptiSubscribe_v2", None)
        if function is None:
            return "cuptiSubscribe_v2 does not exist"
        text = ctypes.create_string_buffer(128)
        params = SubscriberParams(
            ctypes.sizeof(SubscriberParams), b"fastprof check", ctypes.addressof(text), 128
        )
        params.old_name = ctypes.cast(text, ctypes.c_char_p)
        subscriber = ctypes.c_void_p()
        code = function(ctypes.byref(subscriber), self._nothing, None, ctypes.byref(params))
        if code == 0:
            self.library.cuptiUnsubscribe(subscriber)
        return f"code {code}, holder {text.value.decode(errors='replace')!r}"

    def begin(self, kinds: Collection[str], calls: bool = False, zeroed: bool = False) -> None:
        """Register buffers and enable kinds; calls: switch single calls of the runtime.

        With the kind "runtime", those that neither start work nor wait nor allocate are switched off; without it,
        the others on.
        """
        register = self.library.cuptiActivityRegisterCallbacks
        self.answers["register"] = register(*self._callbacks)
        value, size = ctypes.c_uint8(zeroed), ctypes.c_size_t(1)
        attribute = getattr(self.library, "cuptiActivitySetAttribute", None)
        if attribute is not None:
            self.answers["zeroed buffers"] = attribute(
                _ZEROED_BUFFERS, ctypes.byref(size), ctypes.byref(value)
            )
        for kind in kinds:
            self.answers[f"enable {kind}"] = self.library.cuptiActivityEnable(KINDS[kind])
        if calls:
            begin = time.perf_counter()
            self.answers["enable calls"] = self._enable_calls("runtime" not in kinds)
            self.answers["enable calls, ms"] = round((time.perf_counter() - begin) * 1e3, 3)

    def _enable_calls(self, on: bool) -> str:
        enable = getattr(self.library, "cuptiActivityEnableRuntimeApi", None)
        if enable is None:
            return "cuptiActivityEnableRuntimeApi does not exist"
        chosen = set(self.chosen_calls())
        named = [cbid for cbid in range(1, 600) if self.call_name(_RUNTIME, cbid)]
        codes = Counter(enable(cbid, int(on)) for cbid in named if (cbid in chosen) == on)
        return f"codes {dict(codes)}"

    def chosen_calls(self) -> list[int]:
        """Numbers of runtime calls that start work, wait, or allocate."""
        parts = (
            "Launch",
            "Memcpy",
            "Memset",
            "Malloc",
            "Free",
            "Synchronize",
            "EventRecord",
            "WaitEvent",
        )
        return [
            cbid for cbid in range(1, 600)
            if any(part in self.call_name(_RUNTIME, cbid) for part in parts)
        ]  # fmt: skip

    def call_name(self, domain: int, cbid: int) -> str:
        """Return the name of a call; empty if CUPTI knows none."""
        text = ctypes.c_char_p()
        code = self.library.cuptiGetCallbackName(domain, cbid, ctypes.byref(text))
        return text.value.decode() if code == 0 and text.value else ""

    def disable(self, kinds: Iterable[str]) -> None:
        for kind in kinds:
            self.answers[f"disable {kind}"] = self.library.cuptiActivityDisable(KINDS[kind])

    def flush(self, forced: bool = True) -> None:
        self.answers["flush"] = self.library.cuptiActivityFlushAll(int(forced))
        dropped = ctypes.c_size_t()
        code = self.library.cuptiActivityGetNumDroppedRecords(None, 0, ctypes.byref(dropped))
        self.answers["get dropped"], self.dropped = code, dropped.value

    def unsubscribe(self) -> None:
        self.answers["unsubscribe"] = self.library.cuptiUnsubscribe(self._subscriber)

    def rows(self) -> list[Row]:
        """Return the records of all buffers delivered so far, in order of delivery, and forget them."""
        return [row for _, rows in self.rows_by_buffer() for row in rows]

    def rows_by_buffer(self) -> list[tuple[int, list[Row]]]:
        """Return (delivering thread, records) of each buffer, and forget them."""
        taken, self._buffers = self._buffers, []
        return [(thread, list(self._rows_of(address, valid))) for thread, address, valid in taken]

    def _rows_of(self, address: int, valid: int) -> Iterable[Row]:
        record = ctypes.c_void_p()
        next_record = self.library.cuptiActivityGetNextRecord
        while (
            next_record(ctypes.c_void_p(address), ctypes.c_size_t(valid), ctypes.byref(record)) == 0
        ):
            data = ctypes.string_at(record.value or 0, 112)
            number, cbid = struct.unpack_from("<II", data)
            kind = _NAMES.get(number, f"kind {number}")
            at = _FIELDS.get(kind)
            if at is None:
                yield Row(kind, 0, 0, cbid if kind == "cuda_event" else 0, 0, 0)
                continue
            start, end = (struct.unpack_from("<Q", data, where)[0] for where in at[:2])
            correlation, thread = (
                0 if where is None else struct.unpack_from("<I", data, where)[0] for where in at[2:]
            )
            yield Row(
                kind, start, end, correlation, thread, cbid if at[3] and kind != "overhead" else 0
            )


def nested_calls(client: RawClient, rows: list[Row]) -> dict[str, Any]:
    """How driver calls lie in runtime calls, and how work is linked to either."""
    runtime = [row for row in rows if row.kind == "runtime"]
    driver = [row for row in rows if row.kind == "driver"]
    by_thread: dict[int, list[Row]] = {}
    for row in runtime:
        by_thread.setdefault(row.thread, []).append(row)
    inside = same = 0
    for row in driver:
        outer = [
            o for o in by_thread.get(row.thread, ()) if o.start <= row.start and row.end <= o.end
        ]
        inside += bool(outer)
        same += any(o.correlation == row.correlation for o in outer)
    runtime_ids, driver_ids = {r.correlation for r in runtime}, {r.correlation for r in driver}
    work = [row for row in rows if row.kind in ("concurrent_kernel", "memcpy", "memset", "memcpy2")]
    start_of = {row.correlation: row.start for row in [*driver, *runtime]}
    return {
        "records": dict(Counter(row.kind for row in rows)),
        "runtime_calls": dict(Counter(client.call_name(_RUNTIME, r.cbid) for r in runtime)),
        "driver_calls": dict(Counter(client.call_name(_DRIVER, r.cbid) for r in driver)),
        "driver_inside_runtime": inside,
        "with_the_same_correlation": same,
        "work": len(work),
        "work_of_runtime_calls": sum(row.correlation in runtime_ids for row in work),
        "work_of_driver_calls": sum(row.correlation in driver_ids for row in work),
        "work_before_its_call": sum(row.start < start_of.get(row.correlation, 0) for row in work),
        "work_without_stamps": sum(row.start == 0 or row.end == 0 for row in work),
    }


def observe_delivery(work: Callable[[], None], synchronize: Callable[[], None]) -> dict[str, Any]:
    """Collect the records of `work` from two threads at once, and return facts of their delivery."""
    client = RawClient()
    if not client.subscribe():
        return {"answers": client.answers, "holder": client.holder()}
    kinds = ("memcpy", "memset", "runtime", "concurrent_kernel")
    client.begin(kinds)
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
    client.flush()
    client.disable(kinds)
    client.unsubscribe()
    buffers = client.rows_by_buffer()
    counts: Counter[str] = Counter()
    unordered, mixed, before = 0, 0, 0
    calling: set[int] = set()
    for _, rows in buffers:
        of_buffer = set()
        for row in rows:
            counts[row.kind] += 1
            if row.kind == "runtime":
                of_buffer.add(row.thread)
                unordered += row.start < before
                before = row.start
        calling |= of_buffer
        mixed += len(of_buffer) > 1
    delivering = {thread for thread, _ in buffers}
    return {
        "answers": client.answers,
        "buffers": len(buffers),
        "records": dict(counts),
        "delivering_threads": len(delivering),
        "delivered_by_the_flushing_thread": threading.get_native_id() in delivering,
        "calling_threads": len(calling),
        "buffers_with_calls_of_several_threads": mixed,
        "calls_that_come_after_a_later_one": unordered,
        "dropped": client.dropped,
    }
