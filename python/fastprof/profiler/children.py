# SPDX-License-Identifier: Apache-2.0
"""FollowedChildren: the child processes that a recording follows, and the merged capture of all processes."""

from __future__ import annotations

import os
import random
import time
import weakref
from typing import TYPE_CHECKING, Any

from fastprof import _core
from fastprof.profiler import followed_process
from fastprof.profiler.options import Options, report_missing
from fastprof.profiler.shard_samples import read_shard_samples
from fastprof.profiler.shards import (
    join_sentences,
    merge_processes,
    process_of,
    read_shards,
)
from fastprof.record.shard_folder import ShardFolder

if TYPE_CHECKING:
    from fastprof.model.sampled_stacks import SampledStacks

__all__ = ["FollowedChildren"]

_MAX_DEVICE_WAIT_S = 5


class FollowedChildren:
    """The shard folder of one recording. Use from one thread at a time. In a forked child, close() has no effect."""

    def __init__(self, options: Options) -> None:
        self._options = options
        self._folder: ShardFolder | None = None
        self._pid = os.getpid()
        self._samples: list[tuple[int, SampledStacks]] = []
        self._remove: weakref.finalize[Any, FollowedChildren] | None = None

    def start(self) -> None:
        """Follow the processes that start from now on. If that is impossible, the reason is added to `missing`."""
        if followed_process.is_followed():
            report_missing(
                self._options,
                "follow_children",
                "the processes that this one starts are already followed by another profile, which records"
                " their events: stop that profile first",
            )
            return
        links = random.SystemRandom().randrange(1 << 15)
        # Stored before it exists, so that close() removes it after an interrupt, too.
        folder = self._folder = ShardFolder.unused()
        # Also when this object is dropped without close(), and at exit.
        self._remove = weakref.finalize(self, _close, folder, self._pid)
        try:
            folder.create({**followed_process.options_for_children(self._options), "links": links})
        except OSError as error:
            self.close()
            report_missing(
                self._options,
                "follow_children",
                f"the folder for the records of other processes cannot be created ({error}): set TMPDIR to"
                " a writable folder",
            )
            return
        followed_process.follow_children(folder, self._options, links)
        if earlier := followed_process.earlier_children():
            names = ", ".join(earlier[:5]) + (", ..." if len(earlier) > 5 else "")
            self._report(
                [
                    f"{len(earlier)} processes started before the recording and are not recorded ({names}):"
                    " start them in a recorded step (a DataLoader starts its workers with the iterator), or"
                    " profile without a schedule"
                ]
            )

    @property
    def folder(self) -> str | None:
        """Path of the shard folder; None if no process is followed."""
        return None if self._folder is None else self._folder.path

    def merged_with(self, capture: _core.Capture) -> tuple[_core.Capture, list[dict[str, Any]]]:
        """Return a capture with the events of all processes, and a description of each process.

        Reads the shards as they are and waits for no process, with one exception: processes that collect
        activities of devices are notified to end, and have _MAX_DEVICE_WAIT_S seconds to write them. May be
        called repeatedly until close(). If the shards cannot be read, returns the given capture and adds the
        reason to `missing`.
        """
        own = {
            "pid": capture.pid,
            "parent_pid": os.getppid(),
            "name": capture.process_name,
            "start_ns": capture.t0_ns,
            "rows": len(capture),
            "open_ranges": capture.open_ranges,
            "alive": True,
        }
        if self._folder is None:
            return capture, [own]
        try:
            self._await_devices(self._folder)
            shards, problems = read_shards(self._folder)
            offset = _core.unix_offset_ns()
            merged = merge_processes(
                shards, first=capture, unix_offset_ns=offset, now_ns=_core.now_ns()
            )
        except Exception as error:
            self._report([f"the records of other processes cannot be read ({error})"])
            return capture, [own]
        if self._options.sample_hz:
            self._samples = [*read_shard_samples(self._folder, shards, offset, problems)]
        self._report(problems)
        processes = [
            process_of(shard, offset - int(shard.facts["unix_offset_ns"])) for shard in shards
        ]
        return merged, [own, *processes]

    def samples_with(self, samples: SampledStacks) -> SampledStacks:
        """Return the samples of this process with those of the others, after merged_with()."""
        for pid, each in self._samples:
            samples = samples.with_process(each, pid, self._pid)
        return samples

    def _await_devices(self, folder: ShardFolder) -> None:
        if not self._options.device_types or not folder.unfinished():
            return
        followed_process.stop_following(folder)
        until = time.monotonic() + _MAX_DEVICE_WAIT_S
        while waiting := folder.unfinished():
            if time.monotonic() > until:
                pids = ", ".join(os.path.basename(path).partition("-")[0] for path in waiting)
                self._report(
                    [
                        f"the last device work of process {pids} is missing: the process did not end its"
                        f" recording within {_MAX_DEVICE_WAIT_S} seconds"
                    ]
                )
                return
            time.sleep(0.002)

    def _report(self, problems: list[str]) -> None:
        if problems:
            report_missing(self._options, "follow_children", join_sentences(problems))

    def close(self) -> None:
        """End the recordings of all followed processes and remove the folder. No effect when called again.

        After an exception (KeyboardInterrupt included), a second call goes on. Raises OSError if the folder cannot be
        removed.
        """
        if self._folder is not None:
            _close(self._folder, self._pid)
            self._folder = None
        if self._remove is not None:
            self._remove.detach()


def _close(folder: ShardFolder, pid: int) -> None:
    if os.getpid() != pid:
        return
    try:
        followed_process.stop_following(folder)
        folder.remove()
    except KeyboardInterrupt:  # nobody may call it again: at exit, or when the object was dropped
        followed_process.stop_following(folder)
        folder.remove()
        raise
