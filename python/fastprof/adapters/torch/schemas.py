# SPDX-License-Identifier: Apache-2.0
"""Schemas of torch's ops: which inputs an op writes to."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Sequence

__all__ = ["written_inputs"]


def written_inputs() -> Callable[[str, str], Sequence[bool | None]] | None:
    """Return a function of an op's name and overload name; None if torch is not loaded.

    The function returns for each argument whether the op writes to it, () for unknown ops.
    """
    return _by_schema if "torch" in sys.modules else None


@functools.cache
def _by_schema(name: str, overload: str) -> Sequence[bool | None]:
    """Return for each argument whether the op writes to it; () if torch has no op of this name."""
    import torch

    try:
        schemas = torch._C._jit_get_schemas_for_operator(name)
    except RuntimeError:  # not the name of an op
        return ()
    # Releases before 2.2 record no overload names: then any overload may be meant.
    chosen = [schema for schema in schemas if schema.overload_name == overload] or schemas
    written: list[bool] = []
    for schema in chosen:
        for position, argument in enumerate(schema.arguments):
            writes = argument.alias_info is not None and argument.alias_info.is_write
            if position == len(written):
                written.append(writes)
            else:
                written[position] |= writes
    return tuple(written)
