# SPDX-License-Identifier: Apache-2.0
"""Process groups in a trace's metadata, with stand-ins for the modules of torch that describe them."""

from __future__ import annotations

import json
import math
import sys
from types import SimpleNamespace
from typing import Any

import pytest

import fastprof
from fastprof.profiler.metadata import distributed_info, trace_members


def group(**more: Any) -> Any:
    """Return what torch.distributed says in a job of 8 processes."""
    return SimpleNamespace(
        is_available=lambda: True, is_initialized=lambda: True, get_backend=lambda: "gloo",
        get_rank=lambda: 3, get_world_size=lambda: 8, **more,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("module", "expected"),
    [
        (None, None),
        (SimpleNamespace(is_available=lambda: False), None),
        (SimpleNamespace(is_available=lambda: True, is_initialized=lambda: False), None),
        (SimpleNamespace(), None),
        (group(), {"backend": "gloo", "rank": 3, "world_size": 8}),
        (
            group(
                get_pg_count=lambda: 2,
                distributed_c10d=SimpleNamespace(_get_all_pg_configs=lambda: [{"pg_name": "0"}]),
            ),
            {
                "backend": "gloo", "rank": 3, "world_size": 8, "pg_count": 2,
                "pg_config": [{"pg_name": "0"}],
            },
        ),
    ],
)  # fmt: skip
def test_what_the_metadata_says(
    monkeypatch: pytest.MonkeyPatch, module: Any, expected: dict[str, Any] | None
) -> None:
    if module is None:
        monkeypatch.delitem(sys.modules, "torch.distributed", raising=False)
    else:
        monkeypatch.setitem(sys.modules, "torch.distributed", module)
    assert distributed_info() == expected


def test_the_version_of_nccl(monkeypatch: pytest.MonkeyPatch) -> None:
    module = group()
    module.get_backend = lambda: "nccl"
    monkeypatch.setitem(sys.modules, "torch.distributed", module)
    cuda = SimpleNamespace(nccl=SimpleNamespace(version=lambda: (2, 21, 5)))
    monkeypatch.setitem(sys.modules, "torch.cuda", cuda)
    info = distributed_info()
    assert info is not None and info["nccl_version"] == "2.21.5"


def test_members_of_a_trace() -> None:
    options = fastprof.profile(record_shapes=True, with_stack=True)._options
    members = trace_members(options, {"note": [math.nan, (1, math.inf)]}, "abc", {"rank": 1})
    values = {name: json.loads(text) for name, text in members.items()}
    assert (
        values["trace_id"] == "abc" and isinstance(values["host_name"], str) and values["host_name"]
    )
    assert (values["record_shapes"], values["with_stack"], values["distributedInfo"]) == (
        1,
        1,
        {"rank": 1},
    )
    assert "profile_memory" not in values and values["note"] == ["nan", [1, "inf"]]
