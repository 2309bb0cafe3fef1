# SPDX-License-Identifier: Apache-2.0
"""Source: the bytes of a trace file, decompressed on the fly, up to a limit."""

from __future__ import annotations

import gzip
import os
import tempfile
import zlib
from types import TracebackType
from typing import BinaryIO, cast

from fastprof.base import errors
from fastprof.importers.memory_budget import DEFAULT_MAX_MEMORY_BYTES, LimitError, MemoryBudget
from fastprof.importers.salvaged_gzip import SalvagedGzip

__all__ = ["DEFAULT_MAX_BYTES", "Source"]

DEFAULT_MAX_BYTES = 16 << 30
_GZIP = b"\x1f\x8b"
_PIECE_BYTES = 1 << 22


class Source:
    """A readable file. `offset`: decompressed bytes read so far. `budget`: limit of the readers' memory.

    file: a path, or a binary file object open for reading, which stays open; one that cannot seek (a
    pipe) is first copied to a temporary file. max_bytes, max_decompressed_bytes: limits of the file's
    size, as stored and decompressed. max_memory_bytes: limit of `budget`.
    salvage: a damaged gzip file ends at the damage, which `damage` then describes.

    Raises errors.IoError if the file cannot be opened or read and errors.FormatError if it exceeds a
    limit or its compression is damaged.
    """

    def __init__(
        self,
        file: str | os.PathLike[str] | BinaryIO,
        max_bytes: int,
        max_decompressed_bytes: int,
        max_memory_bytes: int = DEFAULT_MAX_MEMORY_BYTES,
        salvage: bool = False,
    ) -> None:
        is_path = isinstance(file, (str, bytes, os.PathLike))
        self.path = os.fsdecode(file) if is_path else str(getattr(file, "name", "a stream"))  # type: ignore[arg-type]
        self.offset = 0
        self.limit = max_decompressed_bytes
        self.budget = MemoryBudget(self.path, max_memory_bytes)
        self.can_map = is_path  # np.memmap needs a path and offsets from the file's first byte
        self._owned: BinaryIO | None = None
        try:
            read = None if is_path else getattr(file, "read", None)
            if not is_path and (read is None or isinstance(read(0), str)):
                raise errors.ValueError(
                    f'a trace is read from a path or a binary file, such as open(path, "rb"), not from {file!r}'
                )
            if is_path:
                self._raw = self._owned = cast(BinaryIO, open(self.path, "rb"))  # noqa: SIM115
            else:
                self._raw = self._seekable(cast(BinaryIO, file), max_bytes)
            self._begin = self._raw.tell()
            self.size = self._raw.seek(0, os.SEEK_END) - self._begin
            if self.size > max_bytes:
                raise self._too_large(max_bytes)
            self._raw.seek(self._begin)
            head = self._raw.read(2)
            self._raw.seek(self._begin)
        except OSError as error:
            self._close()
            raise self._unreadable(error) from error
        except BaseException:
            self._close()
            raise
        self.compressed = head == _GZIP
        self._file: BinaryIO = self._raw
        if self.compressed:
            # The mode is passed because a copy of a stream is open for writing, too.
            opened = (
                SalvagedGzip(self._raw) if salvage else gzip.GzipFile("", "rb", fileobj=self._raw)
            )
            self._file = cast(BinaryIO, opened)

    def _seekable(self, stream: BinaryIO, max_bytes: int) -> BinaryIO:
        """Return the stream, or a temporary copy of one that cannot seek."""
        if stream.seekable():
            return stream
        copy = self._owned = cast(BinaryIO, tempfile.TemporaryFile())  # noqa: SIM115
        while piece := stream.read(_PIECE_BYTES):
            copy.write(piece)
            if copy.tell() > max_bytes:
                raise self._too_large(max_bytes)
        copy.seek(0)
        return copy

    def _too_large(self, max_bytes: int) -> errors.FormatError:
        size = f"its {self.size} bytes exceed" if hasattr(self, "size") else "its size exceeds"
        return errors.FormatError(
            f"{self.path}: {size} the limit of {max_bytes} bytes. Raise max_bytes if you trust the file."
        )

    def __enter__(self) -> Source:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self.compressed:
            self._file.close()
        self._close()

    def _close(self) -> None:
        if self._owned is not None:
            self._owned.close()

    def _unreadable(self, error: OSError) -> errors.IoError:
        reason = error.strerror or str(error)
        return errors.IoError(error.errno, f"cannot read {self.path}: {reason}")

    @property
    def damage(self) -> str:
        """Description of the damage at which a salvaged gzip file ends; "" if there is none so far."""
        found = getattr(self._file, "damage", "")
        return found and f"{self.path}: {found}"

    def _check(self, offset: int) -> None:
        if offset > self.limit:
            raise LimitError(
                f"{self.path}: it exceeds {self.limit} bytes when decompressed. "
                "Raise max_decompressed_bytes if you trust the file."
            )

    def read(self, size: int) -> bytes:
        """Return up to `size` bytes, fewer only at the end. Allocates no more than the file contains."""
        if size <= _PIECE_BYTES:
            return self._read(size)
        pieces, wanted = [], size
        while wanted > 0:
            piece = self._read(min(wanted, _PIECE_BYTES))
            if not piece:
                break
            pieces.append(piece)
            wanted -= len(piece)
        return b"".join(pieces)

    def _read(self, size: int) -> bytes:
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
        """Fill `view` as far as the file reaches; return the number of bytes read."""
        done = 0
        while done < len(view):
            data = self.read(min(_PIECE_BYTES, len(view) - done))
            if not data:
                break
            view[done : done + len(data)] = data
            done += len(data)
        return done

    def rewind(self) -> None:
        """Go back to the first byte."""
        self._file.seek(0 if self.compressed else self._begin)
        self.offset = 0
