# SPDX-License-Identifier: Apache-2.0
"""SalvagedGzip: decompresses a damaged gzip file up to the last byte before the damage."""

from __future__ import annotations

import zlib
from typing import BinaryIO

__all__ = ["SalvagedGzip"]

_GZIP_WINDOW = 31  # wbits of zlib: a gzip header is expected
_INPUT_BYTES = 1 << 16
_OUTPUT_BYTES = 1 << 20


class SalvagedGzip:
    """A readable stream that ends at the first damage, which `damage` then describes; until then it is "".

    file: a binary file at the begin of the gzip data, which may have several members.
    """

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._begin = file.tell()
        self._restart()

    def _restart(self) -> None:
        self._inflate = zlib.decompressobj(_GZIP_WINDOW)
        self._input = b""
        self._done = 0
        self._ended = False
        self.damage = ""

    def read(self, size: int) -> bytes:
        """Return up to `size` decompressed bytes, fewer only at the end or the damage."""
        pieces, wanted = [], size
        while wanted > 0 and not self._ended:
            piece = self._next(min(wanted, _OUTPUT_BYTES))
            pieces.append(piece)
            wanted -= len(piece)
        data = b"".join(pieces)
        self._done += len(data)
        return data

    def seek(self, offset: int) -> int:
        """Go back to the begin; other offsets than 0 are not supported."""
        assert offset == 0
        self._file.seek(self._begin)
        self._restart()
        return 0

    def close(self) -> None:
        """Leave the file open: it belongs to the caller."""

    def _next(self, most: int) -> bytes:
        if self._inflate.eof:
            rest = self._inflate.unused_data or self._file.read(_INPUT_BYTES)
            rest = rest.lstrip(b"\0")  # padding is allowed, as in Python's gzip
            if not rest:
                self._ended = True
                return b""
            self._inflate, self._input = zlib.decompressobj(_GZIP_WINDOW), rest
        if not self._input:
            self._input = self._file.read(_INPUT_BYTES)
            if not self._input:
                self._end("the file ends within the compressed data")
                return b""
        before = self._inflate.copy()
        try:
            data = self._inflate.decompress(self._input, most)
        except zlib.error as error:
            self._end(str(error))
            return _up_to_damage(before, self._input, most)
        self._input = self._inflate.unconsumed_tail
        return data

    def _end(self, what: str) -> None:
        self._ended = True
        self.damage = f"damaged gzip data after about {self._done} decompressed bytes: {what}"


def _up_to_damage(inflate: zlib._Decompress, data: bytes, most: int) -> bytes:
    """Return the decompressed data of the bytes before the damage, which is found by feeding them one by one."""
    pieces: list[bytes] = []
    try:
        for i in range(len(data)):
            pieces.append(inflate.decompress(data[i : i + 1]))
    except zlib.error:
        pass
    return b"".join(pieces)[:most]
