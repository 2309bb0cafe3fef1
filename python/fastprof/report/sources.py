# SPDX-License-Identifier: Apache-2.0
"""Source texts that a report embeds: files of the profiled code, up to a total size."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable

__all__ = ["MAX_FILE_BYTES", "MAX_TOTAL_BYTES", "frame_file", "source_texts"]

MAX_FILE_BYTES = 1 << 20
MAX_TOTAL_BYTES = 8 << 20
# A trace may name any file and a report is passed on, so only files with a suffix of program text are read.
_SUFFIXES = (
    *(
        ".py",
        ".pyx",
        ".pxd",
        ".pyi",
        ".c",
        ".cc",
        ".cpp",
        ".cxx",
        ".cu",
        ".cuh",
        ".h",
        ".hh",
        ".hpp",
    ),
    *(".hxx", ".inl", ".ipp", ".m", ".mm", ".rs", ".go", ".js", ".ts"),
)
_FRAME = re.compile(r"(.*)\((\d+)\): .*", re.DOTALL)


def frame_file(frame: str) -> str:
    """Return the file of a stack entry or call "file(line): function"; "" for other texts."""
    match = _FRAME.fullmatch(frame)
    return match[1] if match else ""


def source_texts(files: Iterable[str]) -> tuple[dict[str, str], list[str]]:
    """Return (file -> text, files left out because of their size). Files are read in order, up to the bounds."""
    texts: dict[str, str] = {}
    left_out: list[str] = []
    total = 0
    for name in files:
        text = _interactive_text(name)
        if text:
            if len(text) > MAX_FILE_BYTES or total + len(text) > MAX_TOTAL_BYTES:
                left_out.append(name)
                continue
            total += len(text)
            texts[name] = text
            continue
        if os.path.splitext(name)[1] not in _SUFFIXES or "\0" in name:
            continue
        try:
            if not os.path.isfile(name):  # excludes devices and pipes, whose reading might block
                continue
            size = os.path.getsize(name)
            if size > MAX_FILE_BYTES or total + size > MAX_TOTAL_BYTES:
                left_out.append(name)
                continue
            with open(name, "rb") as file:
                data = file.read(MAX_FILE_BYTES)
        except (OSError, ValueError):
            continue  # unreadable: shown without text, like a file that no longer exists
        total += len(data)
        texts[name] = data.decode("utf-8", "replace")
    return texts, left_out


def _interactive_text(name: str) -> str:
    """Return the text of a notebook's cell or of code typed into a shell; "" for other names.

    Interactive shells store these in linecache, under names of files that do not exist and without a modification
    time.
    """
    linecache = sys.modules.get("linecache")
    entry = None if linecache is None else linecache.cache.get(name)
    if entry is None or len(entry) != 4 or entry[1] is not None or os.path.exists(name):
        return ""
    return "".join(entry[2])
