# SPDX-License-Identifier: Apache-2.0
"""Decode debug annotations of Perfetto's track events to Python numbers, texts, dicts and lists."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

from fastprof.base import errors
from fastprof.importers.perfetto_fields import Annotation, InternedData, Nested
from fastprof.importers.perfetto_sequence import Sequence
from fastprof.importers.protobuf import fields, message, real, signed, text, whole

__all__ = ["annotation"]

_MAX_DEPTH = 16


def annotation(
    sequence: Sequence, data: bytes, skipped: Counter[str], depth: int = 0
) -> tuple[str, Any]:
    """Return (name, value) of a DebugAnnotation.

    For unsupported kinds of values (protos) the value is None and `skipped` is incremented.
    """
    if depth > _MAX_DEPTH:
        raise errors.FormatError("an annotation is nested too deeply")
    name = ""
    value: Any = None
    for number, content in fields(data):
        if number == Annotation.NAME_IID:
            kind = InternedData.DEBUG_ANNOTATION_NAMES
            name = sequence.interned(kind, whole(content), skipped) or ""
        elif number == Annotation.NAME:
            name = text(content)
        elif number == Annotation.BOOL_VALUE:
            value = bool(content)
        elif number == Annotation.UINT_VALUE:
            value = whole(content)
        elif number == Annotation.INT_VALUE:
            value = signed(content)
        elif number == Annotation.DOUBLE_VALUE:
            value = real(content)
        elif number == Annotation.STRING_VALUE:
            value = text(content)
        elif number == Annotation.STRING_VALUE_IID:
            kind = InternedData.DEBUG_ANNOTATION_STRING_VALUES
            value = sequence.interned(kind, whole(content), skipped) or ""
        elif number == Annotation.POINTER_VALUE:
            value = hex(whole(content))
        elif number == Annotation.LEGACY_JSON_VALUE:
            value = _json(text(content))
        elif number == Annotation.NESTED_VALUE:
            value = _nested(message(content), skipped, depth + 1)
        elif number == Annotation.DICT_ENTRIES:
            key, item = annotation(sequence, message(content), skipped, depth + 1)
            if not isinstance(value, dict):
                value = {}
            value[key] = item
        elif number == Annotation.ARRAY_VALUES:
            item = annotation(sequence, message(content), skipped, depth + 1)[1]
            if not isinstance(value, list):
                value = []
            value.append(item)
        else:
            skipped[f"DebugAnnotation field {number}"] += 1
    return name, value


def _nested(data: bytes, skipped: Counter[str], depth: int) -> Any:
    """Return the value of a NestedValue, the older encoding of dictionaries and lists."""
    if depth > _MAX_DEPTH:
        raise errors.FormatError("an annotation is nested too deeply")
    kind = 0
    leaf: Any = None
    keys: list[str] = []
    values: list[Any] = []
    items: list[Any] = []
    for number, content in fields(data):
        if number == Nested.NESTED_TYPE:
            kind = whole(content)
        elif number == Nested.DICT_KEYS:
            keys.append(text(content))
        elif number == Nested.DICT_VALUES:
            values.append(_nested(message(content), skipped, depth + 1))
        elif number == Nested.ARRAY_VALUES:
            items.append(_nested(message(content), skipped, depth + 1))
        elif number == Nested.INT_VALUE:
            leaf = signed(content)
        elif number == Nested.DOUBLE_VALUE:
            leaf = real(content)
        elif number == Nested.BOOL_VALUE:
            leaf = bool(content)
        elif number == Nested.STRING_VALUE:
            leaf = text(content)
        else:
            skipped[f"NestedValue field {number}"] += 1
    if kind == 1:
        return dict(zip(keys, values, strict=False))
    return items if kind == 2 else leaf


def _json(source: str) -> Any:
    try:
        return json.loads(source)
    except (ValueError, RecursionError):
        return source
