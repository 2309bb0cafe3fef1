# SPDX-License-Identifier: Apache-2.0
"""Handlers of finished traces: values for profile(on_trace_ready=...)."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import Any

from fastprof.base import errors

__all__ = ["make_folder", "tensorboard_trace_handler"]


def tensorboard_trace_handler(
    dir_name: str | bytes | os.PathLike[str],
    worker_name: str | None = None,
    use_gzip: bool = False,
    use_python_export: bool = False,
) -> Callable[[Any], None]:
    """Return a handler that writes each finished trace to a folder, named for TensorBoard's plug-in.

    dir_name: the folder; created if missing.
    worker_name: prefix of the file names `{worker_name}.{time in ns}.pt.trace.json`; default
    `{host}_{pid}`, so that several processes can share the folder.
    use_gzip: compress and add the suffix .gz.
    use_python_export: no effect (a parameter of PyTorch's).

    The handler raises errors.IoError if the folder cannot be created.

        with fastprof.profile(on_trace_ready=fastprof.tensorboard_trace_handler("log")):
            work()

    The handler runs on the thread that ends the trace.
    """
    folder = os.fsdecode(dir_name)

    def handler(prof: Any) -> None:
        import socket  # slow to load

        make_folder(folder, "traces")
        worker = worker_name or f"{socket.gethostname()}_{os.getpid()}"
        name = f"{worker}.{time.time_ns()}.pt.trace.json" + (".gz" if use_gzip else "")
        prof.export_chrome_trace(os.path.join(folder, name))

    return handler


def make_folder(path: str, what: str) -> None:
    """Create the folder `path` for `what` if it is missing. Raises errors.IoError."""
    try:
        os.makedirs(path, exist_ok=True)
    except OSError as error:
        raise errors.IoError(
            f"cannot create the folder {path!r} for {what}: {error}. Choose another folder."
        ) from error
