# SPDX-License-Identifier: Apache-2.0
"""OwnDescriptor: a file descriptor that detects when the program has closed it, as daemons close all descriptors."""

from __future__ import annotations

import contextlib
import os

__all__ = ["OwnDescriptor"]


class OwnDescriptor:
    """A file descriptor together with the identity of its file (device and inode).

    A program that closes every descriptor gets the same numbers again for files of its own, so use `number` only
    while `is_ours()` is true.
    """

    def __init__(self, number: int) -> None:
        self.number = number
        self._file = _identity(number)

    def is_ours(self) -> bool:
        """Return whether the number still refers to the same file."""
        return self._file is not None and _identity(self.number) == self._file

    def close(self) -> None:
        """Close the descriptor if it still refers to our file. No effect when called again."""
        if self.is_ours():
            self._file = None
            with contextlib.suppress(OSError):
                os.close(self.number)


def _identity(number: int) -> tuple[int, int] | None:
    try:
        facts = os.fstat(number)
    except OSError:
        return None
    return facts.st_dev, facts.st_ino
