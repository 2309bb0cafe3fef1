# SPDX-License-Identifier: Apache-2.0
"""Where the interpreter of another process has its threads, frames and code objects.

CPython >= 3.13 publishes offsets at the begin of _PyRuntime (_Py_DebugOffsets: sections of 64-bit words). Older ones
are read with the offsets of the interpreter that runs this, if it is of the same version.
"""

from __future__ import annotations

import contextlib
import struct
import sys
from collections.abc import Callable
from typing import NamedTuple

from fastprof import _core
from fastprof.attach.symbols import Symbol, symbols_of
from fastprof.base import errors

__all__ = ["InterpreterMap", "map_interpreter"]

_COOKIE = b"xdebugpy"
_OLDEST, _NEWEST = 13, 15
# Words of each section up to the last one that is read, in their order.
_SECTIONS = {
    13: {"runtime": 3, "interpreter": 13, "thread": 9, "frame": 6, "code": 10, "object": 2, "type": 4, "tuple": 3,
         "list": 3, "dict": 3, "float": 2, "long": 3, "bytes": 3, "text": 4},
    14: {"runtime": 3, "interpreter": 16, "thread": 9, "frame": 8, "code": 11, "object": 2, "type": 4, "tuple": 3,
         "list": 3, "set": 4, "dict": 3, "float": 2, "long": 3, "bytes": 3, "text": 4},
    15: {"runtime": 3, "interpreter": 16, "thread": 16, "exception": 1, "frame": 8, "code": 11, "object": 2, "type": 6,
         "heap_type": 2, "tuple": 3, "list": 3, "set": 4, "dict": 3, "float": 2, "long": 3, "bytes": 3, "text": 5},
}  # fmt: skip
_HEAD_WORDS = 3  # cookie, version, whether it runs without a GIL
_WORD = 8
_SYMBOLS = {
    "_PyRuntime": "runtime",
    "PyCode_Type": "code_type",
    "PyUnicode_Type": "text_type",
    "PyBytes_Type": "bytes_type",
    "_Py_NoneStruct": "none",
}
_ID_OF = {10: 24, 11: 48, 12: 8}  # where an interpreter has its id, before it was published
_ABSENT = 2**64 - 1
_MAX_INTERPRETERS = 1000

Read = Callable[[int, int], bytes]  # of an address and a number of bytes


class InterpreterMap(NamedTuple):
    """What _core.StackSampler gets of another process. offsets: empty if they are those of this interpreter.

    addresses: of its main interpreter. newest: address of the word with its newest interpreter. next, id, threads:
    where an interpreter has the one before it, its number, and its first thread.
    """

    addresses: dict[str, int]
    offsets: dict[str, int]
    newest: int
    next: int
    id: int
    threads: int

    def subinterpreters(self, read: Read) -> dict[int, int]:
        """Return the addresses of subinterpreters that have a thread, with their ids, none of which is used again.

        Of a list that changes meanwhile, what could be read.
        """
        found: list[int] = []
        numbers: dict[int, int] = {}
        with contextlib.suppress(OSError, errors.UnavailableError):
            state = _word(read, self.newest)
            while state not in (0, self.addresses["state"]) and len(found) < _MAX_INTERPRETERS:
                found.append(state)
                state = _word(read, state + self.next)
        with contextlib.suppress(OSError, errors.UnavailableError):
            for state in found:
                if _word(read, state + self.threads):
                    numbers[state] = _word(read, state + self.id)
        return numbers

    def addresses_of(self, state: int) -> dict[str, int]:
        """Return the addresses of another interpreter of the process."""
        return {**self.addresses, "state": state, "threads_head": state + self.threads}


def map_interpreter(pid: int, minor: int, free_threaded: bool, read: Read) -> InterpreterMap:
    """Return where the interpreter of `pid`, CPython 3.`minor`, has what sampling reads.

    Raises errors.UnavailableError if that is unknown, OSError if its files or memory cannot be read.
    """
    found = symbols_of(pid, _SYMBOLS)
    if missing := [name for name in _SYMBOLS if name not in found]:
        raise errors.UnavailableError(
            f"process {pid} does not export {', '.join(missing)}: its interpreter was linked without exported symbols"
        )
    addresses = {key: found[name].address for name, key in _SYMBOLS.items()}
    addresses["gil_holder"] = 0
    runtime = found["_PyRuntime"]
    addresses["runtime_bytes"] = runtime.size_bytes
    if minor >= _OLDEST:
        return _from_published(pid, minor, free_threaded, runtime, addresses, read)
    if minor != sys.version_info.minor:
        raise errors.UnavailableError(
            f"process {pid} runs CPython 3.{minor}, which does not publish where its frames are"
        )
    anchors = _core.interpreter_anchors()
    if _ABSENT in (anchors["interpreter"], anchors["threads_head"]):
        raise errors.UnavailableError("this interpreter's own threads are not where they should be")
    addresses["state"] = _word(read, runtime.address + anchors["interpreter"])
    addresses["threads_head"] = addresses["state"] + anchors["threads_head"]
    if anchors["gil_holder"] != _ABSENT:
        addresses["gil_holder"] = runtime.address + anchors["gil_holder"]
    # The main interpreter follows the newest one; each begins with the one before it.
    newest = runtime.address + anchors["interpreter"] - _WORD
    return InterpreterMap(addresses, {}, newest, 0, _ID_OF[minor], anchors["threads_head"])


def _from_published(
    pid: int,
    minor: int,
    free_threaded: bool,
    runtime: Symbol,
    addresses: dict[str, int],
    read: Read,
) -> InterpreterMap:
    sections = _SECTIONS.get(minor)
    if sections is None:
        raise errors.UnavailableError(
            f"process {pid} runs CPython 3.{minor}; this fastprof reads 3.{_OLDEST} to 3.{_NEWEST}: update it"
        )
    size = _HEAD_WORDS + sum(sections.values())
    raw = read(runtime.address, size * _WORD)
    words = struct.unpack(f"<{size}Q", raw)
    if raw[:_WORD] != _COOKIE or words[1] >> 16 != 0x300 + minor:
        raise errors.UnavailableError(
            f"process {pid} does not publish the layout of CPython 3.{minor}, or has just begun: try again"
        )
    begin, at = {}, _HEAD_WORDS
    for name, count in sections.items():
        begin[name] = at
        at += count

    def of(section: str, member: int) -> int:
        found: int = words[begin[section] + member]
        return found

    offsets = _offsets(minor, free_threaded, of)
    state = _word(read, runtime.address + of("runtime", 2))
    for _ in range(_MAX_INTERPRETERS):
        if state == 0 or _word(read, state + of("interpreter", 1)) == 0:  # the main one's id
            break
        state = _word(read, state + of("interpreter", 2))
    if state == 0:
        raise errors.UnavailableError(f"process {pid} has no interpreter yet, or no longer")
    addresses["state"] = state
    addresses["threads_head"] = state + of("interpreter", 3)
    newest = runtime.address + of("runtime", 2)
    where = of("interpreter", 2), of("interpreter", 1), of("interpreter", 3)
    return InterpreterMap(addresses, offsets, newest, *where)


def _offsets(minor: int, free_threaded: bool, of: Callable[[str, int], int]) -> dict[str, int]:
    """Return the offsets by the names of Layout (csrc/adapters/python/frame_layout.hpp)."""
    later = 3 if minor >= 15 else 0  # members of thread states before the ids
    frame = of("thread", 4)
    # Unpublished before 3.15: a bit of the status; then the word behind it. Exceptions are four words behind the frame.
    gil_word, gil_mask, raised = of("thread", 8), 1 << 5, frame + 5 * _WORD
    if minor == 14:
        gil_word, gil_mask = gil_word + 4, 0xFFFFFFFF
    elif minor >= 15:
        gil_word, gil_mask, raised = of("thread", 12), 0xFFFFFFFF, of("thread", 14)
    instructions = of("code", 9)
    behind = (
        3 if free_threaded and minor >= 14 else 2
    )  # words between that index and the instructions
    return {
        "minor": minor,
        "next": of("thread", 2),
        "interpreter": of("thread", 3),
        "frame": frame,
        "id": of("thread", 5 + later),
        "kernel_id": of("thread", 6 + later),
        "stack_chunk": of("thread", 7 + later),
        "gil_word": gil_word,
        "gil_mask": gil_mask,
        "raised": raised,
        "exception_info": raised + _WORD,
        "previous_item": _WORD,
        "frame_previous": of("frame", 1),
        "frame_code": of("frame", 2),
        "frame_instruction": of("frame", 3),
        "frame_owner": of("frame", 5),
        "frame_bytes": (of("frame", 5) // _WORD + 1) * _WORD,
        "code_name": of("code", 3),
        "code_file": of("code", 1),
        "code_lines": of("code", 4),
        "code_first_line": of("code", 5),
        "code_constants": of("object", 0) + _WORD,
        "code_first_traceable": instructions - behind * _WORD,
        "code_head_bytes": instructions,
        "object_type": of("object", 1),
        "object_size": of("bytes", 1),
        "text_length": of("text", 2),
        "text_state": of("text", 1),
        "text_kind_shift": 8 if free_threaded and minor >= 14 else 2,
        "ascii_bytes": of("text", 3),
        "compact_bytes": of("text", 3) + 2 * _WORD,
        "bytes_data": of("bytes", 2),
    }


def _word(read: Read, address: int) -> int:
    return int.from_bytes(read(address, _WORD), sys.byteorder)
