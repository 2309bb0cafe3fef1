# SPDX-License-Identifier: Apache-2.0
"""Top-level members of a trace beside its events: options, identity and the user's metadata."""

from __future__ import annotations

import contextlib
import json
import math
import sys
from typing import Any

from fastprof.base import errors
from fastprof.base.visible_text import short_text
from fastprof.profiler.options import Options

__all__ = ["check_json", "check_name", "distributed_info", "json_text", "trace_members"]


def check_name(name: Any) -> str:
    """Return a member's name as text; errors.ValueError if the trace format defines that name."""
    from fastprof.formats.trace_members import WRITER_MEMBERS

    if name in WRITER_MEMBERS:
        raise errors.ValueError(
            f"the metadata name {name!r} is reserved by the trace format. Choose another name."
        )
    return str(name)


def json_text(value: Any) -> str:
    """Return strict JSON of a plain value: NaN and infinities as strings, lone surrogates escaped.

    A value that has no JSON (nested in itself or too deeply, an integer of thousands of digits, an object whose
    `__repr__` raises) becomes a short text of it.
    """
    try:
        return json.dumps(_finite(value), ensure_ascii=True, allow_nan=False, default=str)
    except Exception:
        return json.dumps(short_text(value))


def _finite(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, dict):
        return {str(k): _finite(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(v) for v in value]
    return value


def check_json(key: str, text: str) -> Any:
    """Return the value of a JSON text; errors.ValueError, naming `key`, if it is invalid."""

    def refuse(constant: str) -> Any:
        raise ValueError(f"{constant} is not JSON")

    try:
        return json.loads(text, parse_constant=refuse)
    except (TypeError, ValueError, RecursionError) as error:
        raise errors.ValueError(
            f"the metadata {key!r} is not valid JSON: {error}. Use add_metadata for plain text."
        ) from error


def trace_members(
    options: Options,
    metadata: dict[str, Any],
    trace_id: str,
    distributed: dict[str, Any] | None = None,
) -> dict[str, str]:
    """Return member name -> JSON text: options, trace id, host, distributed info and user metadata."""
    members: dict[str, str] = {"trace_id": json_text(trace_id), "host_name": json_text(_host())}
    for name in ("profile_memory", "with_stack", "record_shapes", "with_modules", "with_flops"):
        if getattr(options, name):
            members[name] = "1"
    if distributed is not None:
        members["distributedInfo"] = json_text(distributed)
    members.update((key, json_text(value)) for key, value in metadata.items())
    return members


def _host() -> str:
    import socket  # slow to load

    try:
        return socket.gethostname()
    except OSError:
        return ""


def distributed_info() -> dict[str, Any] | None:
    """Return PyTorch's process groups as torch.profiler describes them; None without any.

    Contains backend, rank and world_size of the default group, and pg_count, pg_config (one entry
    per group) and nccl_version if this version of torch provides them. Does not import torch.
    """
    distributed = sys.modules.get("torch.distributed")
    if distributed is None:
        return None
    try:
        if not (distributed.is_available() and distributed.is_initialized()):
            return None
        info: dict[str, Any] = {
            "backend": str(distributed.get_backend()),
            "rank": int(distributed.get_rank()),
            "world_size": int(distributed.get_world_size()),
        }
    except Exception:
        return None
    # Newer than the rest, and partly private: each is left out if this version of torch lacks it.
    with contextlib.suppress(Exception):
        info["pg_count"] = int(distributed.get_pg_count())
    with contextlib.suppress(Exception):
        info["pg_config"] = distributed.distributed_c10d._get_all_pg_configs()
    if info["backend"] == "nccl":
        with contextlib.suppress(Exception):
            version = sys.modules["torch.cuda"].nccl.version()
            info["nccl_version"] = ".".join(str(number) for number in version)
    return info
