# SPDX-License-Identifier: Apache-2.0
"""Source: the bytes of a trace file, decompressed on the way, never more than allowed."""

from __future__ import annotations

import gzip
import os
import zlib
from types import TracebackType
from typing import BinaryIO, cast

from fastprof import errors

__all__ = ["DEFAULT_MAX_BYTES", "Source"]

DEFAULT_MAX_BYTES = 16 << 30
_GZIP = b"\x1f\x8b"


class Source:
    """A readable file. `offset` counts decompressed bytes; reading past `max_bytes` raises FormatError.

    Raises errors.IoError when the file cannot be opened or read and errors.FormatError when it is
    larger than max_bytes, itself or decompressed, or its compression is damaged.
    """

    def __init__(
        self, path: str | os.PathLike[str], max_bytes: int, max_decompressed_bytes: int
    ) -> None:
        self.path = os.fspath(path)
        self.offset = 0
        self.limit = max_decompressed_bytes
        try:
            self._raw = open(self.path, "rb")  # noqa: SIM115 - closed by __exit__
        except OSError as error:
            raise self._unreadable(error) from error
        try:
            self.size = os.fstat(self._raw.fileno()).st_size
            if self.size > max_bytes:
                raise errors.FormatError(
                    f"{self.path}: {self.size} bytes, more than the {max_bytes} allowed; "
                    "raise max_bytes if you trust the file"
                )
            head = self._raw.read(2)
            self._raw.seek(0)
        except OSError as error:
            self._raw.close()
            raise self._unreadable(error) from error
        except BaseException:
            self._raw.close()
            raise
        self.compressed = head == _GZIP
        self._file: BinaryIO = self._raw
        if self.compressed:
            self._file = cast(BinaryIO, gzip.GzipFile(fileobj=self._raw, mode="rb"))

    def __enter__(self) -> Source:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._file.close()
        self._raw.close()

    def _unreadable(self, error: OSError) -> errors.IoError:
        reason = error.strerror or str(error)
        return errors.IoError(error.errno, f"cannot read {self.path}: {reason}")

    def _check(self, offset: int) -> None:
        if offset > self.limit:
            raise errors.FormatError(
                f"{self.path}: more than {self.limit} bytes when decompressed; "
                "raise max_decompressed_bytes if you trust the file"
            )

    def read(self, size: int) -> bytes:
        """Up to `size` bytes; fewer only at the end."""
        try:
            data = self._file.read(size)
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            raise errors.FormatError(
                f"{self.path}: damaged gzip data after {self.offset} decompressed bytes: {error}"
            ) from None
        except OSError as error:
            raise self._unreadable(error) from error
        self.offset += len(data)
        self._check(self.offset)
        return data

    def readinto(self, view: memoryview) -> int:
        """Fill `view` as far as the file goes; the bytes read."""
        done = 0
        while done < len(view):
            data = self.read(min(1 << 22, len(view) - done))
            if not data:
                break
            view[done : done + len(data)] = data
            done += len(data)
        return done

    def rewind(self) -> None:
        """Back to the first byte."""
        self._file.seek(0)
        self.offset = 0
