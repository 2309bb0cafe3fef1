# SPDX-License-Identifier: Apache-2.0
"""Which builds of torch have passed the self-test of op inputs: once per build, kept in the user's cache folder.

The test runs 60 ops, each of which waits for a turn of every thread that computes: tenths of a second of a start beside
16 of them, which itself varies by as much. What a file says is used only while the libraries of torch and fastprof are
those it was written for.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from fastprof import _core
from fastprof.adapters.torch import storages
from fastprof.adapters.torch.versions import cache_folder, version_of
from fastprof.base.atomic_file import atomic_text

__all__ = ["proven_storage_offset", "remember"]


def proven_storage_offset(torch: Any, layout: Sequence[int], wrappers: bool) -> int | None:
    """Return the storage offset that remember() kept for this build of torch and this layout; None without one.

    wrappers: whether tensors of a Python class must have been tested, too. Any thread.
    """
    place = _place(torch)
    if place is None:
        return None
    try:
        kept = json.loads(place.read_text())
        offset, proven = kept["storage_offset"], kept["build"] == _build(torch, layout)
    except (OSError, ValueError, KeyError, TypeError):
        return None
    if (
        not proven
        or offset not in (0, *storages.OFFSETS)
        or (wrappers and not kept.get("wrappers"))
    ):
        return None
    return int(offset)


def remember(torch: Any, layout: Sequence[int], wrappers: bool, storage_offset: int) -> None:
    """Keep that this build has passed. Without a folder that can be written, it is tested in each process."""
    place = _place(torch)
    if place is None:
        return
    with contextlib.suppress(OSError):
        kept = {
            "torch": version_of(torch),
            "build": _build(torch, layout),
            "wrappers": wrappers,
            "storage_offset": storage_offset,
        }
        place.parent.mkdir(parents=True, exist_ok=True)
        with atomic_text(place) as file:
            json.dump(kept, file)


def _place(torch: Any) -> Path | None:
    """Return the file of this installation of torch; None if torch has no place."""
    file = getattr(torch, "__file__", None)
    if not isinstance(file, str):
        return None
    return cache_folder() / f"torch-proven-{hashlib.sha256(file.encode()).hexdigest()[:16]}.json"


def _build(torch: Any, layout: Sequence[int]) -> str:
    """Return what identifies torch's libraries and this fastprof. Raises OSError if one of them is not found.

    Few files, since os.stat() releases the GIL, too: libc10 is built with the others.
    """
    suffix = ".dylib" if sys.platform == "darwin" else ".so"
    folder = os.path.join(os.path.dirname(torch.__file__), "lib")
    files = [
        os.path.join(folder, f"{name}{suffix}") for name in ("libtorch_cpu", "libtorch_python")
    ]
    facts = [
        (file, (stat := os.stat(file)).st_size, stat.st_mtime_ns)
        for file in [*files, _core.__file__]
    ]
    builds = version_of(torch), getattr(getattr(torch, "version", None), "git_version", None)
    return hashlib.sha256(repr((builds, list(layout), facts)).encode()).hexdigest()
