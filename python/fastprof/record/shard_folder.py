# SPDX-License-Identifier: Apache-2.0
"""ShardFolder: the private folder into which the processes that a profile follows write their records.

| file | content |
|---|---|
| PID-START.shard | the records of a process: a backing file (docs/backing_file.md) |
| PID-START.shard.devices | activities of the process's devices, if it collects any |
| PID-START.shard.samples | samples of the process's stacks, if they are sampled |
| PID.note | lines that say what is missing from the shard, or why there is none |
| options.json | the options with which processes record |
| running | FIFO that the profile keeps open for writing: readers get end of file when its process stops it or dies |
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterator
from typing import Any

from fastprof import _core
from fastprof.base.atomic_file import atomic_binary

__all__ = ["FOLDER_FACT", "ShardFolder", "activities_of", "process_start", "samples_beside"]

FOLDER_FACT = "children"  # metadata of the profile's own backing file: the path of its shard folder

_OPTIONS, _FIFO = "options.json", "running"
_MIN_FREE_BYTES = 1 << 30
_PAGE = 4096


class ShardFolder:
    """A shard folder, by its path. Methods raise OSError unless they say otherwise."""

    def __init__(self, path: str) -> None:
        self.path = path
        # Where remove() moves it. No other user can create that name before.
        self._removed = f"{path}.{os.urandom(8).hex()}.over"

    @classmethod
    def unused(cls) -> ShardFolder:
        """Return a folder that create() can create.

        The folder is in memory (Linux: /dev/shm) if at least 1 GB is free there, so that enough is left for a
        program that uses it; else among the temporary files.
        """
        import tempfile

        parent = _shared_memory() or tempfile.gettempdir()
        return cls(
            os.path.join(os.path.abspath(parent), f"fastprof-children-{os.urandom(8).hex()}")
        )

    def create(self, options: dict[str, Any]) -> None:
        """Create the folder with mode 0700, and write the options into it as JSON.

        After an exception (KeyboardInterrupt included) call remove().
        """
        os.mkdir(self.path, 0o700)
        os.mkfifo(self._in(_FIFO), 0o600)
        self._write(_OPTIONS, json.dumps(options))

    def options(self) -> dict[str, Any] | None:
        """Return the options of make(); None if the folder no longer exists, that is, the profile has ended."""
        try:
            with open(self._in(_OPTIONS), encoding="utf-8") as file:
                read: dict[str, Any] = json.load(file)
                return read
        except OSError:
            return None

    # ---- the end of the profile ----------------------------------------------------------------

    def hold(self) -> int:
        """Open the FIFO for writing and return the descriptor; while it is open, reader() reports a running profile."""
        return os.open(self._in(_FIFO), os.O_RDWR | os.O_CLOEXEC)

    def reader(self) -> int | None:
        """Return a descriptor that polls as hung up once the profile has ended; None if it has ended."""
        try:
            descriptor = os.open(self._in(_FIFO), os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError:
            return None
        try:
            os.read(
                descriptor, 1
            )  # returns at end of file: no process has the FIFO open for writing
        except BlockingIOError:
            return descriptor
        except OSError:
            pass
        os.close(descriptor)
        return None

    # ---- files of the processes ----------------------------------------------------------------

    def new_shard(self) -> str:
        """Return an unused path for this process's shard. A process that executes several programs has several."""
        stem = f"{os.getpid()}-{process_start(os.getpid())}"
        path, number = self._in(f"{stem}.shard"), 1
        while os.path.lexists(path):
            number += 1
            path = self._in(f"{stem}-{number}.shard")
        return path

    def shards(self) -> list[str]:
        """Return the paths of all shards, sorted."""
        return [self._in(name) for name in sorted(os.listdir(self.path)) if name.endswith(".shard")]

    def name_samples(self, shard: str, name: str) -> None:
        """Note the name of a process that writes samples, and no shard."""
        self._write(f"{os.path.basename(samples_beside(shard))}.name", name)

    def samples_alone(self) -> list[tuple[int, str, str]]:
        """Return (pid, name, path) of the samples without a shard, sorted by path."""
        found = []
        for file in sorted(os.listdir(self.path)):
            pid = file.partition("-")[0]
            if file.endswith(samples_beside(".shard") + ".name") and pid.isdecimal():
                with open(self._in(file), encoding="utf-8", errors="replace") as text:
                    path = self._in(file.removesuffix(".name"))
                    found.append((int(pid), text.read(4096), path))
        return found

    def unfinished(self) -> list[str]:
        """Return the shards of living processes whose activity files of devices have no end mark yet."""
        # (pid, start of the process) -> (number, shard) of the program that the process executes now
        last: dict[tuple[int, str], tuple[int, str]] = {}
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
        """Free the reserved but unused space in the shards of ended processes, up to 2 MB each.

        done: names of shards that are already compacted; compacted ones are added. An unreadable shard is left.
        """
        for path in self.shards():
            name = os.path.basename(path)
            pid, _, start = name.removesuffix(".shard").partition("-")
            if name in done or str(process_start(int(pid))) == start.partition("-")[0]:
                continue
            done.add(name)
            with contextlib.suppress(OSError):
                _free_zeroes(path)

    def note(self, text: str, pid: int = 0) -> None:
        """Append a line to the note of a process, 0: this one. Does nothing if the file cannot be written."""
        with contextlib.suppress(OSError):
            flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
            descriptor = os.open(self._in(f"{pid or os.getpid()}.note"), flags, 0o600)
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
        """Remove the folder and its files; rename it first, so that no process can add files.

        Does nothing if it does not exist. May be called again after an interrupt.
        """
        import shutil

        with contextlib.suppress(FileNotFoundError):
            os.rename(self.path, self._removed)
        shutil.rmtree(self._removed, ignore_errors=True)
        if os.path.lexists(self._removed):
            shutil.rmtree(self._removed)  # again, to raise the reason

    def _in(self, name: str) -> str:
        return os.path.join(self.path, name)

    def _write(self, name: str, text: str) -> None:
        with open(self._in(name), "w", encoding="utf-8") as file:
            file.write(text)


def _free_zeroes(path: str) -> None:
    """Replace a file atomically by a copy in which pages of zeroes are holes."""
    zeroes = bytes(_PAGE)
    with open(path, "rb") as file, atomic_binary(path, compressed=False) as out:
        while page := file.read(_PAGE):
            if page == zeroes[: len(page)]:
                out.seek(len(page), os.SEEK_CUR)
            else:
                out.write(page)
        out.truncate(file.tell())


def _shared_memory() -> str | None:
    folder = _core.folder_in_memory()
    if folder is None:
        return None
    try:
        facts = os.statvfs(folder)
    except OSError:
        return None
    usable = os.access(folder, os.W_OK | os.X_OK)
    return folder if usable and facts.f_bavail * facts.f_frsize >= _MIN_FREE_BYTES else None


def activities_of(shard: str) -> str:
    """Return the path of the activity file of devices that belongs to a shard."""
    return shard + ".devices"


def samples_beside(shard: str) -> str:
    """Return the path of the samples that belong to a shard."""
    return shard + ".samples"


def process_start(pid: int) -> int | None:
    """Return when a process started, in 1/100 s (Linux: since boot); None if it has ended or is a zombie."""
    return _core.process_start(pid)
