# SPDX-License-Identifier: Apache-2.0
"""Read JSON as strict parsers do: without NaN and infinities, each member once."""

from __future__ import annotations

import json
from typing import Any


def strict(text: str | bytes, *, once: bool = True, **more: Any) -> Any:
    """Return the value of a JSON text in UTF-8. once: no member of an object is there twice."""

    def refuse(constant: str) -> None:
        raise AssertionError(f"{constant} is no JSON")

    def members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        assert not once or len(dict(pairs)) == len(pairs), "a member is there twice"
        return dict(pairs)

    text = text.decode("utf-8", "strict") if isinstance(text, bytes) else text
    return json.loads(text, parse_constant=refuse, object_pairs_hook=members, **more)
