# SPDX-License-Identifier: Apache-2.0
"""Names of followed processes, sentences of a report, and the order in which shards are read."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from fastprof.profiler.shards import Shard, display_name
from fastprof.record.missing_counts import MISSING_COUNTS
from fastprof.record.shard_folder import ShardFolder


def shard(pid: int = 7, *, alive: bool = False, path: str = "7-1.shard", **facts: Any) -> Shard:
    """Return the shard of a process that does not exist."""
    capture: Any = SimpleNamespace(pid=pid, process_name="python3", t0_ns=1000)
    known = {
        "metadata": {},
        "unix_offset_ns": 50,
        "parent_pid": 1,
        "open_ranges": 2,
        "opened_monotonic_ns": 0,
        **dict.fromkeys(MISSING_COUNTS, 0),
    }
    return Shard(path, capture, known | facts, alive)


@pytest.mark.parametrize(
    ("metadata", "name"),
    [
        ({"name": "Process-3", "argv": "train.py"}, "Process-3"),
        ({"name": "MainProcess", "argv": "folder/train.py --fast x.py"}, "train.py"),
        ({"argv": "folder/train.py"}, "train.py"),
        ({"argv": "-c"}, "python3"),
        ({"argv": "tool x.py"}, "python3"),
        ({}, "python3"),
    ],
)
def test_names_of_processes(metadata: dict[str, str], name: str) -> None:
    assert display_name(shard(metadata=metadata)) == name


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ShardFolder]:
    monkeypatch.setattr("fastprof.record.shard_folder._shared_memory", lambda: str(tmp_path))
    made = ShardFolder.unused()
    made.create({})
    yield made
    made.remove()


# ---- FollowedChildren: what is reported when processes cannot be followed --------------------------
