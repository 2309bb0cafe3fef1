# SPDX-License-Identifier: Apache-2.0
"""A training loop that is killed, or hangs, and what its flight recorder's file says of it.

python examples/always_on_training.py killed   # prints its pid, and ends by SIGKILL, as by the OOM killer
fastprof dump PID -o killed.flight             # reads the file that it left
fastprof report killed.flight

python examples/always_on_training.py hangs    # prints the path of a dump after 2 s, and hangs on
fastprof report PATH                           # which range is open, and the line that each thread is in
"""

from __future__ import annotations

import os
import signal
import sys
import threading

import numpy as np

from fastprof import flight_recorder, record_function

STEPS, LAST = 100, 60


def batches() -> np.ndarray:
    """Return a batch of examples."""
    with record_function("load a batch"):
        return np.random.default_rng(0).random((256, 64))


def save(weights: np.ndarray, how: str) -> None:
    """Write a checkpoint: here the program ends as `how` says."""
    with record_function("save a checkpoint"):
        if how == "killed":
            os.kill(os.getpid(), signal.SIGKILL)
        lock = threading.Lock()
        with lock, lock:  # waits for itself
            weights.tofile(os.devnull)


def main(how: str) -> None:
    """Train until step LAST, which saves a checkpoint."""
    flight_recorder.start(hang_s=2)
    print(os.getpid(), flush=True)
    weights = np.zeros(64)
    for step in range(STEPS):
        examples = batches()
        with record_function("forward"):
            errors = examples @ weights - examples.sum(1)
        with record_function("backward"):
            weights -= 0.01 * examples.T @ errors / len(examples)
        if step == LAST:
            save(weights, how)
        flight_recorder.step()


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "killed")
