# SPDX-License-Identifier: Apache-2.0
"""Hugging Face Trainer: a callback that profiles, `Trainer(..., callbacks=[ProfilerCallback(profile)])`."""

from __future__ import annotations

from typing import Any

from transformers import TrainerCallback  # type: ignore[attr-defined, unused-ignore]

from fastprof.profiler import profile
from fastprof.record.ranges import record_function

__all__ = ["ProfilerCallback"]


class ProfilerCallback(TrainerCallback):  # type: ignore[misc, unused-ignore]
    """Profile a training from begin to end; each optimizer step is a step of the profile, each epoch a range.

    profile: the fastprof.profile to use; None: profile(). With a schedule, its ranges "ProfilerStep#N" and
    on_trace_ready follow the Trainer's steps. Read results from the attribute `profile`. If the training
    raises, the profile keeps running: call its stop(), or the exit of the process stops it.

        callback = ProfilerCallback(fastprof.profile(record_shapes=True))
        Trainer(..., callbacks=[callback]).train()
        print(callback.profile.key_averages().table())
    """

    def __init__(self, profile: profile | None = None) -> None:
        self.profile = profile if profile is not None else _plain()
        self._epoch: record_function | None = None

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Start the profile."""
        self.profile.start()

    def on_epoch_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Begin the epoch's range."""
        self._epoch = record_function("epoch", epoch=int(state.epoch or 0))
        self._epoch.__enter__()

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Begin the profile's next step."""
        self.profile.step()

    def on_epoch_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """End the epoch's range."""
        epoch, self._epoch = self._epoch, None
        if epoch is not None:
            epoch.__exit__(None, None, None)

    def on_train_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Stop the profile."""
        self.on_epoch_end(args, state, control)
        self.profile.stop()


def _plain() -> profile:
    return profile()
