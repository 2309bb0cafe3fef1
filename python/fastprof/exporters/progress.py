# SPDX-License-Identifier: Apache-2.0
"""Progress of long exports: a bar of tqdm (extra `progress`) on a terminal, else nothing."""

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
    """A function(done, total) that draws a bar, or None when there is nobody to see one.

    Bytes. A total of None is not known: then what is done and its rate are shown.

    None when `stream` (default: stderr) is no terminal or tqdm is not installed. The bar goes away
    when the block ends; what takes less than half a second shows none.
    """
    out = sys.stderr if stream is None else stream
    if out is None or not out.isatty():
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
