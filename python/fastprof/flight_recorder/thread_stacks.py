# SPDX-License-Identifier: Apache-2.0
"""What all threads of this process do now, as the text of a dump: Python frames, and native ones where asked."""

from __future__ import annotations

import json
import os
import sys
import threading
import time
import traceback
from collections.abc import Iterator
from typing import Any

from fastprof import _core

__all__ = ["innermost_text", "thread_stacks"]

_OWN_FOLDER = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
_MAX_FRAMES = 60
_HZ, _MAX_RUNS = 200.0, 1 << 14
_TICKS = 2  # a thread that blocks the signal, or starts to wait, is missed by one
_FIRST_WAIT_S, _ATTEMPTS = 0.03, 9


def thread_stacks(*, native: bool = False) -> str:
    """Return the stacks of all threads as JSON: {"name (id)": [frame, ...]}, innermost first. Needs the GIL.

    A frame is "function (file:line)", or with `native`, for C and C++ functions below the Python line that called
    them and for threads without Python, "function [library]". These are sampled for 30 ms; their names may take a
    second more. Where they cannot be read, there are Python's frames alone.
    """
    stacks = _python_stacks()
    if native:
        stacks.update(_native_stacks(stacks))
    return json.dumps({name: frames[:_MAX_FRAMES] for name, frames in stacks.items()})


def innermost_text(frames: list[str]) -> str:
    """Return the first frame; of a native one also the first Python frame, which called it."""
    python = next((frame for frame in frames if not frame.endswith("]")), "")
    return frames[0] if python in ("", frames[0]) else f"{frames[0]} in {python}"


def _threads() -> list[tuple[int | None, int, str]]:
    """Return the kernel's id, Python's id and the name of each thread that Python knows."""
    # Without the lock of threading.enumerate(), which a hung thread may hold. Packages put their own objects there.
    known: Any = threading
    return [
        (getattr(each, "native_id", None), ident, str(getattr(each, "name", "thread")))
        for ident, each in list(known._active.items())
    ]


def _python_stacks() -> dict[str, list[str]]:
    names = {ident: name for _, ident, name in _threads()}
    stacks = {}
    for ident, frame in sys._current_frames().items():
        frames = [
            f"{at.f_code.co_name} ({at.f_code.co_filename}:{line})"
            for at, line in traceback.walk_stack(frame)
            if not at.f_code.co_filename.startswith(_OWN_FOLDER)
        ]
        if frames:  # not a thread of fastprof
            stacks[f"{names.get(ident, 'thread')} ({ident})"] = frames
    return stacks


def _native_stacks(python: dict[str, list[str]]) -> Iterator[tuple[str, list[str]]]:
    """Yield the name and frames of threads whose native frames could be read, but not of the calling one."""
    for attempt in range(_ATTEMPTS):  # on a busy machine, a thread can stand still for long
        sampler = _core.StackSampler(_HZ, _MAX_RUNS, True)
        if sampler.begin():
            return
        if not sampler.native_problem:
            time.sleep(_FIRST_WAIT_S * 2**attempt)
        sampler.end()
        if sampler.native_problem:
            return
        if sampler.counts()["ticks"] >= _TICKS:
            break
    columns, codes = sampler.columns(), sampler.codes()
    keys = {native_id: f"{name} ({ident})" for native_id, ident, name in _threads()}
    own = threading.get_native_id()
    last = dict(zip(columns["thread"].tolist(), columns["node"].tolist(), strict=True))
    for thread, (tid, name) in enumerate(
        zip(columns["tid"].tolist(), sampler.thread_names(), strict=True)
    ):
        node = last.get(thread, -1)
        key = keys.get(tid) or f"{name or 'thread'} ({tid})"
        if tid == own or node < 0 or (tid in keys and key not in python):
            continue
        frames = []
        while node >= 0:
            function, file, _ = codes[columns["code"][node]]
            if line := int(columns["line"][node]):
                frames.append(f"{function} ({file}:{line})")
            else:
                frames.append(f"{function} [{os.path.basename(file)}]")
            node = int(columns["parent"][node])
        shown = [frame for frame in frames if _OWN_FOLDER not in frame]
        if len(shown) == len(frames) or not all(frame.endswith("]") for frame in shown):
            yield key, shown  # else a thread of fastprof
