# SPDX-License-Identifier: Apache-2.0
"""ProcessFolder: the user's private folder in which processes with fastprof are found, and leave their last records.

| file | content |
|---|---|
| PID-START-N-PARENT.records | the records of a flight recorder: a backing file (docs/backing_file.md) |
| PID-START-N-PARENT.samples | the last samples of its stacks, if it samples |
| PID-START-N-PARENT.WINDOW.aggregates | statistics per name, if it aggregates; WINDOW: minute, hour, all |
| PID-START.sock | the socket that answers requests to the process (docs/always_on.md) |

PARENT is the process that forked this one, or whose worker it is, or 0. START is when the process started
(record/shard_folder.py: process_start), so that a pid used again is another process.
"""

from __future__ import annotations

import contextlib
import os
import stat
import time
from collections.abc import Collection
from dataclasses import dataclass, field

from fastprof import _core
from fastprof.base import errors

__all__ = [
    "FOLDER_VARIABLE",
    "FoundProcess",
    "ProcessFolder",
    "find_processes",
    "make_private",
    "stored_bytes",
]

FOLDER_VARIABLE = "FASTPROF_PROCESS_FOLDER"

_RECORDS, _SOCKET = ".records", ".sock"
# What processes that were killed have left is removed by the next recorder that starts, beyond these.
_KEEP_DEAD_S, _KEEP_DEAD_BYTES = 7 * 86400, 1 << 30


@dataclass
class FoundProcess:
    """A process that has, or had, files in the folder. sockets, records: paths; records are sorted by age."""

    pid: int
    start: int
    alive: bool
    socket: str | None = None
    records: list[str] = field(default_factory=list)


class ProcessFolder:
    """The folder at `path`, which belongs to this user alone."""

    def __init__(self, path: str) -> None:
        self.path = path

    @classmethod
    def open(cls, needed_bytes: int = 0) -> ProcessFolder:
        """Return the folder, made with mode 0700 if it is absent.

        In memory (Linux: /dev/shm) if `needed_bytes` and as much again are free there, else among the temporary
        files. The environment variable FASTPROF_PROCESS_FOLDER names another. Raises errors.UnavailableError if no
        folder can be used, with the reason.
        """
        reasons = []
        for path in _candidates(needed_bytes):
            try:
                make_private(path)
                return cls(path)
            except OSError as error:
                reasons.append(f"{path}: {error.strerror or error}")
        raise errors.UnavailableError(
            f"no folder for the files of this process ({'; '.join(reasons)}). Set {FOLDER_VARIABLE} to a"
            " folder of your own with mode 0700."
        )

    def new_records(self, parent: int) -> str:
        """Return an unused path for records of this process; remove those of a program that it executed before.

        parent: the process whose remove_children() may remove them; 0: none.
        """
        for process in self.processes():
            if process.pid == os.getpid():
                for path in process.records:
                    _unlink(path)
        number = 1
        while os.path.lexists(path := self._own(f"-{number}-{parent}{_RECORDS}")):
            number += 1
        return path

    def socket(self) -> str:
        """Return the path of this process's socket."""
        return self._own(_SOCKET)

    def _own(self, suffix: str) -> str:
        pid = os.getpid()
        return os.path.join(self.path, f"{pid}-{_core.process_start(pid) or 0}{suffix}")

    def processes(self) -> list[FoundProcess]:
        """Return the processes that have files here, sorted by pid; none where the folder has been removed."""
        found: dict[tuple[int, int], FoundProcess] = {}
        try:
            names = sorted(os.listdir(self.path))
        except FileNotFoundError:
            names = []
        for name in names:
            stem, suffix = os.path.splitext(name)
            parts = stem.split("-")
            if suffix not in (_RECORDS, _SOCKET) or not all(part.isdecimal() for part in parts[:2]):
                continue
            if len(parts) < 2:
                continue
            pid, start = int(parts[0]), int(parts[1])
            process = found.setdefault(
                (pid, start), FoundProcess(pid, start, _core.process_start(pid) == start)
            )
            path = os.path.join(self.path, name)
            if suffix == _SOCKET:
                process.socket = path
            else:
                process.records.append(path)
        for process in found.values():
            process.records.sort(key=_modified_s)
        return [found[key] for key in sorted(found)]

    def remove_children(self, keep: Collection[int] = ()) -> None:
        """Remove what ended processes that this one started have left, unless their pid is in `keep`.

        Workers of a pool end by SIGTERM, forked processes by os._exit().
        """
        for process in self.processes():
            if process.alive or process.pid in keep:
                continue
            if process.socket is not None:
                _unlink(process.socket)
            for path in process.records:
                if path.endswith(f"-{os.getpid()}{_RECORDS}"):
                    _unlink(path)

    def remove_old(self) -> None:
        """Remove what dead processes have left: sockets; records older than 7 days, or beyond 1 GiB, the oldest first.

        Another user's files are never touched: the folder is this user's alone.
        """
        dead: list[str] = []
        for process in self.processes():
            if process.alive:
                continue
            dead += process.records
            if process.socket is not None:
                _unlink(process.socket)
        total_bytes, now_s = 0, time.time()
        for path in sorted(dead, key=_modified_s, reverse=True):
            try:
                total_bytes += os.stat(path).st_blocks * 512
            except OSError:
                continue
            if total_bytes > _KEEP_DEAD_BYTES or now_s - _modified_s(path) > _KEEP_DEAD_S:
                _unlink(path)


def find_processes() -> list[FoundProcess]:
    """Return the processes of all folders of this user that exist."""
    found: list[FoundProcess] = []
    for path in _candidates(0):
        with contextlib.suppress(OSError):
            _check_private(path)
            found += ProcessFolder(path).processes()
    return found


def _candidates(needed_bytes: int) -> list[str]:
    if chosen := os.environ.get(FOLDER_VARIABLE):
        return [os.path.abspath(chosen)]
    import tempfile

    name = f"fastprof-{os.geteuid()}"
    folders = []
    memory = _core.folder_in_memory()
    if memory is not None and _free_bytes(memory) >= 2 * needed_bytes:
        folders.append(os.path.join(memory, name))
    folders.append(os.path.join(tempfile.gettempdir(), name))
    return list(dict.fromkeys(folders))


def _free_bytes(folder: str) -> int:
    try:
        facts = os.statvfs(folder)
    except OSError:
        return -1
    return facts.f_bavail * facts.f_frsize


def make_private(path: str) -> None:
    """Make the folder `path` with mode 0700 if it is absent; raise OSError unless it is this user's alone."""
    with contextlib.suppress(FileExistsError):
        os.mkdir(path, 0o700)
    _check_private(path)


def _check_private(path: str) -> None:
    facts = os.lstat(path)
    if not stat.S_ISDIR(facts.st_mode):
        raise NotADirectoryError(0, "it is not a folder", path)
    if facts.st_uid != os.geteuid():
        raise PermissionError(0, "it belongs to another user", path)
    if facts.st_mode & 0o077:
        raise PermissionError(0, "others can read or write it; chmod 700 it", path)


def stored_bytes(path: str) -> int:
    """Return the bytes that a file takes, without its holes; 0 if there is none."""
    try:
        return os.stat(path).st_blocks * 512
    except OSError:
        return 0


def _modified_s(path: str) -> float:
    try:
        return os.lstat(path).st_mtime
    except OSError:
        return 0.0


def _unlink(path: str) -> None:
    """Remove a file, and the samples and aggregates that belong to it."""
    beside = [".samples", *(f".{window}.aggregates" for window in ("minute", "hour", "all"))]
    stem = path.removesuffix(_RECORDS)
    for each in [path, *(stem + suffix for suffix in beside if stem != path)]:
        with contextlib.suppress(OSError):
            os.unlink(each)
