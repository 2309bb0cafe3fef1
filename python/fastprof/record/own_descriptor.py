# SPDX-License-Identifier: Apache-2.0
"""OwnDescriptor: a file descriptor in a program that may close all it does not know, as daemons do."""

from __future__ import annotations

import contextlib
import os

__all__ = ["OwnDescriptor"]


class OwnDescriptor:
    """A descriptor that is used only while it still refers to the file that it was made for.

    A program that closes every descriptor gets the same numbers again for files of its own.
    """

    def __init__(self, number: int) -> None:
        self.number = number
        self._file = _identity(number)

    def is_ours(self) -> bool:
        """Return whether the number still refers to the same file."""
        return self._file is not None and _identity(self.number) == self._file

    def close(self) -> None:
        """Close it, unless it is somebody else's by now. A second call does nothing."""
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
