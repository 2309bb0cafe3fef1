# SPDX-License-Identifier: Apache-2.0
"""What to do with a finished trace: values for profile(on_trace_ready=...)."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import Any

from fastprof.base import errors

__all__ = ["tensorboard_trace_handler"]


def tensorboard_trace_handler(
    dir_name: str | os.PathLike[str],
    worker_name: str | None = None,
    use_gzip: bool = False,
    use_python_export: bool = False,
) -> Callable[[Any], None]:
    """Write each finished trace to `dir_name`, made if need be, as TensorBoard's plug-in expects.

    File name: `{worker_name}.{time in ns}.pt.trace.json`, plus .gz with use_gzip; worker_name is
    by default `{host}_{pid}`, so that several processes can share the folder. use_python_export is
    accepted for PyTorch's sake: there is one writer. Raises errors.IoError when the folder cannot
    be made.
    """
    folder = os.fspath(dir_name)

    def handler(prof: Any) -> None:
        import socket  # slow to load

        try:
            os.makedirs(folder, exist_ok=True)
        except OSError as error:
            raise errors.IoError(
                f"cannot make the folder {folder!r} for traces: {error}; choose another one"
            ) from error
        worker = worker_name or f"{socket.gethostname()}_{os.getpid()}"
        name = f"{worker}.{time.time_ns()}.pt.trace.json" + (".gz" if use_gzip else "")
        prof.export_chrome_trace(os.path.join(folder, name))

    return handler
