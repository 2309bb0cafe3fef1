# SPDX-License-Identifier: Apache-2.0
"""find_shards: the shards in a folder, and what is wrong with it: ranks that are missing, short or damaged."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, field
from typing import Any

from fastprof.base import errors
from fastprof.ranks.convert import converted, source_stamp, traces_in
from fastprof.ranks.newest_job import newest_job
from fastprof.ranks.shard import FORMAT

__all__ = ["Shard", "Shards", "find_shards"]

_READ_BYTES = 64 << 20  # limit of a manifest


@dataclass
class Shard:
    """A readable shard: path of its Parquet file, and its manifest."""

    path: str
    manifest: dict[str, Any]

    @property
    def rank(self) -> int:
        """The rank that wrote it."""
        return int(self.manifest["rank"])

    @property
    def steps(self) -> list[list[int]]:
        """Number, start_ns and end_ns of each step."""
        found: list[list[int]] = self.manifest["steps"]
        return found


@dataclass
class Shards:
    """Shards of a job by rank and part. world_size: number of its ranks. problems: a sentence for each."""

    found: list[Shard]
    world_size: int
    problems: list[str] = field(default_factory=list)
    keeper: Any = None  # keeps a temporary folder


def find_shards(folder: str) -> Shards:
    """Return the shards of a folder; traces of a folder without shards are converted.

    Raises errors.IoError if the folder cannot be read. Any thread.
    """
    try:
        names = sorted(os.listdir(folder))
        traces = [] if any(map(_is_shard, names)) else traces_in(folder)
        stamps = {name: source_stamp(os.path.join(folder, name)) for name in traces}
    except OSError as error:
        raise errors.IoError(
            error.errno, f"cannot read the folder {folder}: {error.strerror}. Name the folder of a job's ranks."
        ) from error  # fmt: skip
    if not traces:
        return _shards_in(folder, names)
    target, failed, keeper = converted(folder, traces)
    shards = _shards_in(target, sorted(os.listdir(target)), stamps)
    shards.problems = failed + shards.problems
    shards.keeper = keeper
    return shards


def _is_shard(name: str) -> bool:
    return name.startswith("rank-") and name.endswith(".parquet")


def _shards_in(folder: str, names: list[str], stamps: dict[str, list[int]] | None = None) -> Shards:
    """Return the shards among files. stamps: of the traces, by name; shards of other traces are left out."""
    found: list[Shard] = []
    problems: list[str] = []
    described = set()
    for name in names:
        if not (name.startswith("rank-") and name.endswith(".json")):
            continue
        try:
            manifest = _manifest(os.path.join(folder, name))
        except (OSError, ValueError, KeyError, TypeError) as error:
            problems.append(f"{name}: a damaged manifest ({error}): left out")
            described.add(f"{name.removesuffix('.json')}.parquet")
            continue
        if manifest is None:
            continue
        described.add(manifest["shard"])
        if stamps is not None and stamps.get(str(manifest.get("source"))) != manifest.get(
            "source_stamp"
        ):
            continue  # of a trace that is gone
        if damage := manifest.get("damage"):
            problems.append(f"rank {manifest['rank']}: damaged, read up to there: {damage}")
        path = os.path.join(folder, os.path.basename(manifest["shard"]))
        if os.path.isfile(path):
            found.append(Shard(path, manifest))
        else:
            problems.append(f"rank {manifest['rank']}: {manifest['shard']} is missing: left out")
    for name in names:
        if _is_shard(name) and name not in described:
            problems.append(
                f"{name}: without a manifest, so that rank ended while it wrote: left out"
            )
    found.sort(key=lambda each: (each.rank, each.manifest["t0_ns"]))
    kept, others = newest_job([each.manifest for each in found])
    found = [found[at] for at in kept]
    world_size = found[0].manifest["world_size"] if found else 0
    problems += others
    return Shards(found, world_size, problems)


def _manifest(path: str) -> dict[str, Any] | None:
    """Return the manifest in a file; None for JSON of another kind. Raises ValueError, KeyError, TypeError."""
    with open(path, encoding="utf-8") as file:
        head = file.read(200)
        if '"format": "fastprof rank' not in head:
            return None
        manifest = json.loads(head + file.read(_READ_BYTES))
    if manifest["format"] != FORMAT:
        raise ValueError(f"unknown format {manifest['format']!r}: needs a newer fastprof")
    if not (isinstance(manifest["shard"], str) and int(manifest["rank"]) >= 0):
        raise ValueError("no rank")
    manifest["steps"] = [[int(value) for value in step] for step in manifest["steps"]]
    manifest["world_size"], manifest["t0_ns"] = int(manifest["world_size"]), int(manifest["t0_ns"])
    manifest["t1_ns"] = int(manifest.get("t1_ns") or manifest["t0_ns"])
    return manifest  # type: ignore[no-any-return]
