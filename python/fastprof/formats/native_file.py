# SPDX-License-Identifier: Apache-2.0
"""Layout of fastprof's own trace files (usual suffix .fastprof), shared by writer and reader.

All numbers are little-endian. A file is::

    offset 0   8 bytes   magic 89 46 50 52 4F 46 0D 0A
    offset 8   uint32    version, 1
    offset 12  uint32    CRC-32 (zlib's) of the header text
    offset 16  uint64    bytes of the header text
    offset 24  uint64    bytes of the whole file
    offset 32            header: JSON, ASCII, one object; then zero bytes up to a multiple of 64
    then                 blocks, each at a multiple of 64, in the order of the header's "blocks"

Header members: "rows"; "blocks": [{"name", "dtype", "count", "offset", "crc32"}], offset counted
from the end of the padded header; "sites": {field: [value per site]}; "tracks": [[id, pid, tid,
name, alive]], with one more element for a task (the id of its thread's track) and two more for the
queue of a plug-in's device (-1 and the device's kind); "strings"; "coded": {column: [values]};
"kernel_names"; "scalars"; "dropped"; "metadata". Blocks are named "column:<name>", "codes:<name>",
"kernels:<field>", "payload_words"; their dtypes are NumPy's names. A block can
be mapped with np.memmap(path, dtype, "r", offset, count).
Values of coded columns, strings and metadata are JSON as encoded by `encode_value`.
"""

from __future__ import annotations

import base64
import math
import struct
from typing import Any

from fastprof.base import errors
from fastprof.model.event_metadata import EventMetadata

__all__ = [
    "ALIGNMENT",
    "DTYPES",
    "MAGIC",
    "PREFIX",
    "VERSION",
    "aligned",
    "decode_value",
    "encode_value",
]

MAGIC = b"\x89FPROF\r\n"
VERSION = 1
PREFIX = struct.Struct("<8sIIQQ")
ALIGNMENT = 64
DTYPES = ("bool", "uint8", "uint16", "int16", "int32", "uint32", "int64", "uint64", "float64")
_MAX_DEPTH = 64
_MAX_INT_BITS = 13_000  # Python refuses to read and write more than 4,300 digits of text


def aligned(offset: int) -> int:
    """Round up to a multiple of ALIGNMENT."""
    return -(-offset // ALIGNMENT) * ALIGNMENT


def encode_value(value: Any, depth: int = 0) -> Any:
    """Return a JSON value that `decode_value` converts back to an equal value of the same type.

    None, bool, int, finite float, str, list, and dict with text keys are unchanged. Other values become
    objects with one member: {"$tuple": [...]}, {"$float": "nan"}, {"$complex": [real, imaginary]},
    {"$bytes": base64}, {"$dict": [[key, value], ...]}, {"$metadata": fields of EventMetadata}.
    Raises errors.ValueError for anything else.
    """
    if depth > _MAX_DEPTH:
        raise errors.ValueError(
            f"cannot save a value that is nested more than {_MAX_DEPTH} levels deep. Save it as text, such"
            " as its repr()."
        )
    kind = type(value)
    if isinstance(value, int) and value.bit_length() > _MAX_INT_BITS:
        raise errors.ValueError(
            "cannot save an integer of more than 4,000 digits. Save it as text, such as its hex()."
        )
    if value is None or kind is bool or kind is int or kind is str:
        return value
    if kind is list:
        return [encode_value(item, depth + 1) for item in value]
    if kind is tuple:
        return {"$tuple": [encode_value(item, depth + 1) for item in value]}
    if kind is EventMetadata:
        pairs = zip(value._fields, value, strict=True)
        fields = {name: item for name, item in pairs if item is not None}
        return {"$metadata": encode_value(fields, depth + 1)}
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else {"$float": repr(float(value))}
    if isinstance(value, complex):
        return {"$complex": [encode_value(value.real), encode_value(value.imag)]}
    if isinstance(value, dict):
        if all(type(key) is str for key in value) and not any(k.startswith("$") for k in value):
            return {key: encode_value(item, depth + 1) for key, item in value.items()}
        entries = [
            [encode_value(k, depth + 1), encode_value(v, depth + 1)] for k, v in value.items()
        ]
        return {"$dict": entries}
    if isinstance(value, (bytes, bytearray)):
        return {"$bytes": base64.b64encode(value).decode()}
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, int):  # subclasses of int, such as enums
        return int(value)
    if hasattr(value, "item") and getattr(value, "ndim", None) == 0:  # a NumPy scalar
        return encode_value(value.item(), depth + 1)
    raise errors.ValueError(
        f"cannot save a value of type {type(value).__name__}. Use numbers, text, lists, tuples and "
        "dictionaries."
    )


def decode_value(value: Any) -> Any:
    """Return the value that `encode_value` encoded; errors.FormatError for invalid encodings."""
    if isinstance(value, list):
        return [decode_value(item) for item in value]
    if not isinstance(value, dict):
        return value
    if len(value) == 1:
        ((tag, content),) = value.items()
        if tag.startswith("$"):
            return _tagged(tag, content)
    return {key: decode_value(item) for key, item in value.items()}


def _tagged(tag: str, content: Any) -> Any:
    try:
        if tag == "$tuple" and isinstance(content, list):
            return tuple(decode_value(item) for item in content)
        if tag == "$float" and content in ("nan", "inf", "-inf"):
            return float(content)
        if tag == "$complex":
            real, imaginary = (decode_value(part) for part in content)
            return complex(float(real), float(imaginary))
        if tag == "$bytes":
            return base64.b64decode(content, validate=True)
        if tag == "$metadata":
            return EventMetadata(**decode_value(content))
        if tag == "$dict":
            return {decode_value(key): decode_value(item) for key, item in content}
    except (TypeError, ValueError) as error:
        raise errors.FormatError(f"malformed value with the tag {tag!r}: {error}") from None
    raise errors.FormatError(
        f"unknown tag {tag[:40]!r} of a value: the file is damaged, or a newer fastprof wrote it"
    )
