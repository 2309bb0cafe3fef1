# SPDX-License-Identifier: Apache-2.0
"""Check the files that a command is to write, before it reads or runs anything."""

from __future__ import annotations

import os
from collections.abc import Iterable

from fastprof.base import errors
from fastprof.base.atomic_file import check_output, is_special
from fastprof.base.short_paths import working_folder

__all__ = ["check_outputs"]


def check_outputs(outputs: Iterable[str | None], inputs: Iterable[str | None] = ()) -> None:
    """Raise errors.IoError for an output that cannot be written, errors.ValueError for one that would replace another.

    inputs: the files that the command reads; "-" is standard input. None in either is a file that is not given.
    """
    kept = ["/dev/stdin" if path == "-" else path for path in inputs if path is not None]
    written: list[str] = []
    for path in outputs:
        if path is None:
            continue
        check_output(path)
        if any(_is_same_file(path, other) for other in kept):
            raise errors.ValueError(
                f"cannot write {path}: the command reads this file, and would replace it. Use another name."
            )
        if any(_is_same_file(path, other) for other in written):
            raise errors.ValueError(
                f"cannot write {path}: two results have this name, and one would replace the other. Give each its own."
            )
        written.append(path)


def _is_same_file(path: str, other: str) -> bool:
    if is_special(path):  # a pipe or device keeps what was written before
        return False
    # Not os.path.samefile(): of two hard links, the one that is written becomes a new file.
    return os.path.realpath(path) == os.path.realpath(os.path.join(working_folder(), other))
