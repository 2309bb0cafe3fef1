# SPDX-License-Identifier: Apache-2.0
"""ChildRecording: the recording of a followed process into a shard, and of its devices into a file beside it."""

from __future__ import annotations

import _thread
import os
from dataclasses import replace

from fastprof import _core
from fastprof.base import errors
from fastprof.profiler.open_profiles import closed, opened
from fastprof.profiler.options import Options
from fastprof.profiler.recording import Recording
from fastprof.profiler.shards import name_from
from fastprof.record.shard_folder import ShardFolder, activities_of, samples_beside

__all__ = ["ChildRecording"]


class ChildRecording:
    """The recording of this process, which a profile in another process follows.

    `end()` may be called on any thread; further calls have no effect.
    """

    def __init__(
        self, folder: ShardFolder, options: Options, known: set[str], *, forked: bool
    ) -> None:
        """known: keys of `missing` that the profile has reported. forked: the process executed no program."""
        self._folder = folder
        self._forked = forked
        self._known = known
        self.options = options
        self._recording: Recording | None = None
        self._activities: _core.ActivityFile | None = None
        self._in_activities = _thread.allocate_lock()

    def start(self, facts: list[tuple[str, str]]) -> None:
        """Start recording. facts: metadata of the process. Raises what Recording.start() raises."""
        shard = self._folder.new_shard()
        options = replace(
            self.options, backing_file=shard, sample_file=samples_beside(shard), missing={}
        )
        recording = Recording(options, facts=facts, keep_file=True)
        try:
            recording.start()
        except BaseException:
            recording.release()
            raise
        self._recording = recording
        if options.sample_hz and not os.path.exists(shard):  # a flight recorder has the records
            self._folder.name_samples(shard, name_from(dict(facts), "process"))
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
        """Whether devices are collected, so that save_activities() must be called periodically."""
        return self._activities is not None

    def save_activities(self) -> None:
        """Append completed activities of devices to a file, which survives a kill of the process. Any thread."""
        try:
            self._write_activities(end=False)
        except Exception as error:  # the calling thread must go on waiting for the profile's end
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
        """Add metadata of this process to the shard."""
        if self._recording is not None:
            self._recording.add_fact(key, value)

    def _note(self, recording: Recording) -> None:
        for name, reason in recording.missing.items():
            if name in self._known:
                continue
            self._known.add(name)
            if self._forked and name in self.options.device_types:
                # Nearly no forked process uses a device, so this is metadata and not a warning.
                self.add_fact("devices", reason)
            else:
                self._folder.note(f"{name}: {reason}")

    def end(self) -> None:
        """Stop recording and release the memory. The shard stays: the profile reads it."""
        self._write_activities(end=True)
        recording, self._recording = self._recording, None
        if recording is not None:
            recording.release()
            self._note(recording)
        closed(self)

    def stop(self) -> None:
        """Call end(); open_profiles.py calls this at the interpreter's exit."""
        self.end()
