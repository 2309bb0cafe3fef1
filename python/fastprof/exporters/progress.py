# SPDX-License-Identifier: Apache-2.0
"""terminal_progress: a tqdm bar (extra `progress`) for long exports on a terminal."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import TextIO

__all__ = ["terminal_progress"]


@contextmanager
def terminal_progress(
    what: str, stream: TextIO | None = None
) -> Iterator[Callable[[int, int | None], None] | None]:
    """Yield a function(done, total) that draws a progress bar in bytes, or None without a terminal.

    total: None if unknown; then the bar shows bytes done and their rate. Yields None if `stream`
    (default: stderr) is not a terminal or tqdm is not installed. The bar appears after half a second
    and disappears when the block ends.
    """
    out = sys.stderr if stream is None else stream
    if out is None or not _is_terminal(out):
        yield None
        return
    try:
        tqdm = import_module("tqdm").tqdm
    except ImportError:
        yield None
        return
    bar = tqdm(desc=what, total=1, file=out, leave=False, unit="B", unit_scale=True, delay=0.5)

    def show(done: int, total: int | None) -> None:
        bar.total = total
        bar.update(done - bar.n)

    try:
        yield show
    finally:
        bar.close()


def _is_terminal(stream: TextIO) -> bool:
    try:
        return stream.isatty()
    except (OSError, ValueError):  # the program has closed it
        return False
