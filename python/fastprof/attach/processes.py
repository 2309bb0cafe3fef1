# SPDX-License-Identifier: Apache-2.0
"""Python processes of this machine as /proc describes them: which interpreter they run, and in what state they are."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass

__all__ = [
    "PythonProcess",
    "has_ended",
    "is_stopped",
    "python_processes",
    "read_process",
    "started_unix_s",
    "status_of",
]

# Files of an interpreter that name its version, the surest first; "t": without a GIL.
_NAMES_OF_VERSIONS = (
    re.compile(r"/libpython3\.(?P<minor>\d+)(?P<threads>t?)[.-][^/]*$"),
    re.compile(r"/python3\.(?P<minor>\d+)(?P<threads>t?)$"),
    re.compile(r"\.cpython-3(?P<minor>\d+)(?P<threads>t?)-[^/]*\.so$"),
    re.compile(r"/python3\.(?P<minor>\d+)(?P<threads>t?)/.*\.so$"),
)


@dataclass(frozen=True)
class PythonProcess:
    """A process that runs CPython 3.`minor`, without a GIL if `free_threaded`. executable: the path of its program."""

    pid: int
    minor: int
    free_threaded: bool
    executable: str

    @property
    def version(self) -> str:
        """The version of its interpreter, such as 3.12 or 3.13t."""
        return f"3.{self.minor}{'t' if self.free_threaded else ''}"


def status_of(pid: int | str) -> dict[str, str]:
    """Return the fields of /proc/PID/status; {} if there is no such process."""
    try:
        with open(f"/proc/{pid}/status", encoding="utf-8", errors="replace") as file:
            pairs = (line.partition(":") for line in file)
            return {name: value.strip() for name, _, value in pairs}
    except OSError:
        return {}


def has_ended(status: dict[str, str]) -> bool:
    """Return whether the process of status_of() has ended, or is ending: it has lost its memory.

    The kernel frees the memory, then closes the files, then lets the process become a zombie. Whoever sees a connection
    closed may still find another state than that of a zombie, but never the sizes of the memory.
    """
    return status.get("State", "X").startswith(("Z", "X")) or "VmSize" not in status


def is_stopped(status: dict[str, str]) -> bool:
    """Return whether a signal (SIGSTOP, or Ctrl-Z in its terminal) has stopped the process of status_of()."""
    return status.get("State", "").startswith("T")


def mapped_files(pid: int) -> list[str]:
    """Return the files that are mapped as executable, in the order of their addresses. Raises OSError."""
    found: dict[str, None] = {}
    with open(f"/proc/{pid}/maps", encoding="utf-8", errors="surrogateescape") as file:
        for line in file:
            fields = line.rstrip("\n").split(maxsplit=5)
            if len(fields) == 6 and "x" in fields[1] and fields[5].startswith("/"):
                found[fields[5].removesuffix(" (deleted)")] = None
    return list(found)


def read_process(pid: int) -> PythonProcess | None:
    """Return the interpreter of a process; None if it runs none. Raises OSError if its memory map cannot be read."""
    files = mapped_files(pid)
    executable = os.readlink(f"/proc/{pid}/exe").removesuffix(" (deleted)")
    for pattern in _NAMES_OF_VERSIONS:
        for file in (executable, *files):
            if match := pattern.search(file):
                return PythonProcess(pid, int(match["minor"]), bool(match["threads"]), executable)
    return None


def python_processes() -> list[PythonProcess]:
    """Return the Python processes of this user, without the calling one, sorted by pid."""
    found = []
    for name in os.listdir("/proc"):
        if not name.isdecimal() or int(name) == os.getpid():
            continue
        try:
            if os.stat(f"/proc/{name}").st_uid != os.geteuid():
                continue
            process = read_process(int(name))
        except OSError:  # it has ended, or is one of the kernel
            continue
        if process is not None:
            found.append(process)
    return sorted(found, key=lambda each: each.pid)


def started_unix_s(pid: int) -> float:
    """Return when a process started, within 1 s; 0.0 if it has ended."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            ticks = int(file.read().rpartition(b")")[2].split()[19])
        with open("/proc/stat", "rb") as file:
            boot_s = next(int(line.split()[1]) for line in file if line.startswith(b"btime"))
    except (OSError, ValueError, IndexError, StopIteration):
        return 0.0
    return boot_s + ticks / float(os.sysconf("SC_CLK_TCK"))
