# SPDX-License-Identifier: Apache-2.0
"""ChildRecording: the recording of a process that a profile follows, into a shard; work of devices goes beside it."""

from __future__ import annotations

import _thread
import os
from dataclasses import replace

from fastprof import _core
from fastprof.base import errors
from fastprof.profiler.lifecycle import closed, opened
from fastprof.profiler.options import Options
from fastprof.profiler.recording import Recording
from fastprof.record.shard_folder import ShardFolder, activities_of

__all__ = ["ChildRecording"]


class ChildRecording:
    """The recording of this process. `end()` may be called on any thread, and again."""

    def __init__(
        self, folder: ShardFolder, options: Options, known: set[str], *, forked: bool
    ) -> None:
        self._folder = folder
        self._forked = forked
        self._known = known  # what is missing in all processes
        self.options = options
        self._recording: Recording | None = None
        self._activities: _core.ActivityFile | None = None
        self._in_activities = _thread.allocate_lock()

    def start(self, facts: list[tuple[str, str]]) -> None:
        """Begin. Raises what Recording.start() does."""
        options = replace(self.options, backing_file=self._folder.new_shard(), missing={})
        recording = Recording(options, facts=facts, keep_file=True)
        try:
            recording.start()
        except BaseException:
            recording.release()
            raise
        self._recording = recording
        if recording.collects_devices:
            self._keep_activities(recording, options.backing_file)
        self._note(recording)
        opened(self)

    def _keep_activities(self, recording: Recording, shard: str) -> None:
        try:
            self._activities = _core.ActivityFile(os.fsencode(activities_of(shard)))
        except errors.Error as error:
            self._folder.note(f"work of devices is not recorded: {error}")

    @property
    def collects_devices(self) -> bool:
        """Whether save_activities() has something to do now and then."""
        return self._activities is not None

    def save_activities(self) -> None:
        """Write what devices have completed into a file, where it survives the process. Any thread."""
        try:
            self._write_activities(end=False)
        except Exception as error:  # the thread has to see the profile's end
            self._folder.note(f"work of devices may be missing: {error}")

    def _write_activities(self, *, end: bool) -> None:
        file, recording = self._activities, self._recording
        if file is None or recording is None or not self._in_activities.acquire(blocking=end):
            return
        try:
            recording.hand_over_devices(file, end=end)
            if end:
                file.finish()
                self._activities = None
                if file.problem:
                    self._folder.note(file.problem)
        finally:
            self._in_activities.release()

    def add_fact(self, key: str, value: str) -> None:
        """Tell the reader of the shard more of this process."""
        if self._recording is not None:
            self._recording.add_fact(key, value)

    def _note(self, recording: Recording) -> None:
        for name, reason in recording.missing.items():
            if name in self._known:
                continue
            self._known.add(name)
            if self._forked and name in self.options.device_types:
                # Nearly all forked processes leave devices alone: no reason to warn of each.
                self.add_fact("devices", reason)
            else:
                self._folder.note(f"{name}: {reason}")

    def end(self) -> None:
        """Stop recording and release the memory. The shard stays for the profile."""
        self._write_activities(end=True)
        recording, self._recording = self._recording, None
        if recording is not None:
            recording.release()
            self._note(recording)
        closed(self)

    def stop(self) -> None:
        """End at the interpreter's exit, when nothing traces calls any more."""
        self.end()
