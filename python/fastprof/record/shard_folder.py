# SPDX-License-Identifier: Apache-2.0
"""ShardFolder: the private folder in which the processes that a profile follows leave their records.

Each process has a shard, a backing file `PID-START.shard` (docs/backing_file.md), or a note
`PID.note` that says why it has none or what is missing from it. Beside a shard lies `....shard.devices` if the
process collects what devices do. `options.json` is what the profile
asks of them. `running` is a FIFO that the profile holds open for writing: its readers see the end of
the file when the profile stops or its process dies, however it dies.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import stat
from collections.abc import Iterator
from typing import Any

from fastprof import _core

__all__ = ["ShardFolder", "activities_of", "process_start"]

_OPTIONS, _FIFO = "options.json", "running"
_SHARED_MEMORY, _ROOM = "/dev/shm", 1 << 30
_PAGE = 4096


class ShardFolder:
    """A folder by its path. Methods raise OSError where they say nothing else."""

    def __init__(self, path: str) -> None:
        self.path = path

    @classmethod
    def make(cls, options: dict[str, Any]) -> ShardFolder:
        """Make a folder of mode 0700, and write the options into it as JSON.

        It lies in /dev/shm if that has 1 GB of room, so that the program, which may use it, keeps some;
        else in the folder for temporary files.
        """
        import tempfile

        path = tempfile.mkdtemp(prefix="fastprof-children-", dir=_shared_memory())
        folder = cls(path)
        try:
            os.mkfifo(folder._in(_FIFO), 0o600)
            folder._write(_OPTIONS, json.dumps(options))
        except BaseException:
            folder.remove()
            raise
        return folder

    def options(self) -> dict[str, Any] | None:
        """Return what make() was given; None if the folder is gone, so that nobody is followed."""
        try:
            with open(self._in(_OPTIONS), encoding="utf-8") as file:
                read: dict[str, Any] = json.load(file)
                return read
        except OSError:
            return None

    # ---- the end of the profile ----------------------------------------------------------------

    def hold(self) -> int:
        """Return a descriptor; while it is open here, the profile runs for all readers()."""
        return os.open(self._in(_FIFO), os.O_RDWR | os.O_CLOEXEC)

    def reader(self) -> int | None:
        """Return a descriptor that polls as hung up once the profile has ended; None if it has ended."""
        try:
            descriptor = os.open(self._in(_FIFO), os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError:
            return None
        try:
            os.read(descriptor, 1)  # the end of the file: nobody has it open for writing
        except BlockingIOError:
            return descriptor
        except OSError:
            pass
        os.close(descriptor)
        return None

    # ---- what processes leave ------------------------------------------------------------------

    def new_shard(self) -> str:
        """Return a path for this process's shard that is not used: one process may execute several programs."""
        stem = f"{os.getpid()}-{process_start(os.getpid())}"
        path, number = self._in(f"{stem}.shard"), 1
        while os.path.lexists(path):
            number += 1
            path = self._in(f"{stem}-{number}.shard")
        return path

    def shards(self) -> list[str]:
        """Return the paths of all shards, sorted."""
        return [self._in(name) for name in sorted(os.listdir(self.path)) if name.endswith(".shard")]

    def unfinished(self) -> list[str]:
        """Return the shards whose processes still collect what devices do: they have not said that all is there."""
        last: dict[
            tuple[int, str], tuple[int, str]
        ] = {}  # of a process: the program that it executes now
        for path in self.shards():
            pid, start, *number = os.path.basename(path).removesuffix(".shard").split("-")
            program = (int(number[0]) if number else 1, path)
            last[int(pid), start] = max(program, last.get((int(pid), start), program))
        return [
            path
            for (pid, start), (_, path) in last.items()
            if os.path.exists(activities_of(path))
            and not _core.activity_file_ended(os.fsencode(activities_of(path)))
            and str(process_start(pid)) == start
        ]

    def compact(self, done: set[str]) -> None:
        """Free what the shards of ended processes have reserved and not used, 2 MB each.

        done: names of shards that need not be looked at, to which this adds. An unreadable shard is left.
        """
        for path in self.shards():
            name = os.path.basename(path)
            pid, _, start = name.removesuffix(".shard").partition("-")
            if name in done or str(process_start(int(pid))) == start.partition("-")[0]:
                continue
            done.add(name)
            with contextlib.suppress(OSError):
                _copy_without_zeroes(path, f"{path}.{os.getpid()}.part")

    def note(self, text: str) -> None:
        """Leave a line for the reader of the folder. Does nothing if that is impossible, too."""
        with contextlib.suppress(OSError):
            flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
            descriptor = os.open(self._in(f"{os.getpid()}.note"), flags, 0o600)
            try:
                os.write(descriptor, (" ".join(text.split()) + "\n").encode("utf-8", "replace"))
            finally:
                os.close(descriptor)

    def notes(self) -> Iterator[tuple[int, str]]:
        """Yield (pid, line) of all notes."""
        for name in sorted(os.listdir(self.path)):
            pid, _, suffix = name.partition(".")
            if suffix != "note" or not pid.isdecimal():
                continue
            with open(self._in(name), encoding="utf-8", errors="replace") as file:
                for line in file.read(1 << 16).splitlines():
                    yield int(pid), line

    def remove(self) -> None:
        """Remove the folder with everything in it. Renames it first, so that no process can add to it.

        Does nothing if it is gone.
        """
        import shutil

        over = self.path + ".over"
        try:
            os.rename(self.path, over)
        except OSError as error:
            if error.errno != errno.ENOENT:
                raise
        shutil.rmtree(over, ignore_errors=True)

    def _in(self, name: str) -> str:
        return os.path.join(self.path, name)

    def _write(self, name: str, text: str) -> None:
        with open(self._in(name), "w", encoding="utf-8") as file:
            file.write(text)


def _copy_without_zeroes(path: str, copy: str) -> None:
    """Replace a file by a copy with holes for zeroes, in one step for its readers."""
    zeroes = bytes(_PAGE)
    try:
        with open(path, "rb") as file, open(copy, "xb") as out:
            while page := file.read(_PAGE):
                if page == zeroes[: len(page)]:
                    out.seek(len(page), os.SEEK_CUR)
                else:
                    out.write(page)
            out.truncate(file.tell())
        os.replace(copy, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(copy)
        raise


def _shared_memory() -> str | None:
    try:
        facts = os.statvfs(_SHARED_MEMORY)
        usable = stat.S_ISDIR(os.stat(_SHARED_MEMORY).st_mode)
    except OSError:
        return None
    usable = usable and os.access(_SHARED_MEMORY, os.W_OK | os.X_OK)
    return _SHARED_MEMORY if usable and facts.f_bavail * facts.f_frsize >= _ROOM else None


def activities_of(shard: str) -> str:
    """Return the path of the file of what devices did for the process of a shard."""
    return shard + ".devices"


def process_start(pid: int) -> int | None:
    """Return when a process started, in 1/100 s since boot; None if it has ended or is a zombie."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            fields = file.read().rpartition(b")")[2].split()
    except OSError:
        return None
    return None if fields[0] in (b"Z", b"X") else int(fields[19])
