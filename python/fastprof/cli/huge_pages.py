# SPDX-License-Identifier: Apache-2.0
"""Begin the command again with huge pages: a dump reads 64 MiB into fresh memory; page faults take half its time."""

from __future__ import annotations

import contextlib
import os
import sys
from pathlib import Path

__all__ = ["is_whole_program", "restart_with_huge_pages"]

_ASKED = "FASTPROF_HUGE_PAGES"
# Any of these prevents it. A followed process that begins again would count as two.
_PREVENTING = {_ASKED, "GLIBC_TUNABLES", "FASTPROF_FOLLOW"}
_FIRST_GLIBC = (2, 35)
_SETTING = Path("/sys/kernel/mm/transparent_hugepage/enabled")


def is_whole_program(given: list[str]) -> bool:
    """Return whether this process is the command `fastprof` or `python -m fastprof` with these words, and nothing else.

    A program that calls main() itself would lose what it has done, or do it twice.
    """
    program = sys.modules.get("__main__")
    if sys.orig_argv[-len(given) :] != given:
        return False
    if getattr(getattr(program, "__spec__", None), "name", None) == "fastprof.__main__":
        return True
    script = sys.orig_argv[-len(given) - 1]
    return os.path.basename(script) == "fastprof" and getattr(program, "__file__", None) == script


def restart_with_huge_pages() -> None:
    """Execute this command line again with glibc's tunable for huge pages, where that makes a difference.

    malloc reads the tunable at its start only. Does nothing after a restart, with FASTPROF_HUGE_PAGES=0 or tunables of
    the user, in a followed process, with another C library or kernel setting than `madvise`. Call before memory is in
    use or threads run.
    """
    if sys.platform != "linux" or not _PREVENTING.isdisjoint(os.environ):
        return
    # Another C library, no such kernel feature, a refused exec.
    with contextlib.suppress(OSError, ValueError):
        name, version = (os.confstr("CS_GNU_LIBC_VERSION") or "none 0").split()
        if name != "glibc" or tuple(map(int, version.split(".")[:2])) < _FIRST_GLIBC:
            return
        if "[madvise]" not in _SETTING.read_text():
            return
        more = {_ASKED: "1", "GLIBC_TUNABLES": "glibc.malloc.hugetlb=1"}
        os.execve(sys.executable, [sys.executable, *sys.orig_argv[1:]], {**os.environ, **more})
