# SPDX-License-Identifier: Apache-2.0
"""Modifies files in fastprof's own format, for tests of files that the reader must reject."""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable
from typing import Any

from fastprof.formats.native_file import MAGIC, PREFIX, aligned


def rewritten(data: bytes, change: Callable[[dict[str, Any]], Any]) -> bytes:
    """Return the file with a changed header, and with the checksum and sizes of the new header."""
    _, version, _, size, _ = PREFIX.unpack(data[: PREFIX.size])
    header = json.loads(data[PREFIX.size : PREFIX.size + size])
    change(header)
    text = json.dumps(header).encode()
    body = data[aligned(PREFIX.size + size) :]
    start = aligned(PREFIX.size + len(text))
    prefix = PREFIX.pack(MAGIC, version, zlib.crc32(text), len(text), start + len(body))
    return prefix + text + b"\0" * (start - PREFIX.size - len(text)) + body
