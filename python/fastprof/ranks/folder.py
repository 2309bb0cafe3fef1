# SPDX-License-Identifier: Apache-2.0
"""find_shards: the shards in a folder, and what is wrong with it: ranks that are missing, short or damaged."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import Any

from fastprof.base import errors
from fastprof.ranks.manifest import RECORDS, Shard, is_manifest, read_manifest
from fastprof.ranks.newest_job import newest_job
from fastprof.ranks.places import is_url, join, names_in, open_file

__all__ = ["Shards", "find_shards"]


@dataclass
class Shards:
    """Shards of a job by rank and part. world_size: number of its ranks. problems: a sentence for each."""

    found: list[Shard]
    world_size: int
    problems: list[str] = field(default_factory=list)
    keeper: Any = None  # keeps a temporary folder


def find_shards(folder: str, engine: str | None = None) -> Shards:
    """Return the shards of a folder; traces of a folder without shards are converted.

    folder: path or URL. engine: of map_over(), for the conversion. Raises errors.IoError if the folder cannot be read,
    and what map_over() raises. Any thread.
    """
    keeper: Any = None
    try:
        names = names_in(folder)
        described = (join(folder, name) for name in names if _may_be_manifest(name))
        if any(map(_is_ours, names)) or any(map(is_manifest, described)):
            return _shards_in(folder, names)
        from fastprof.ranks.convert import (
            converted,
            source_stamp,
            traces_among,
        )  # and all importers

        traces = traces_among(names)
        if traces and is_url(folder):
            folder, keeper = _copied(folder, traces)
        stamps = {name: source_stamp(os.path.join(folder, name)) for name in traces}
    except OSError as error:
        if isinstance(error, errors.IoError):
            raise
        raise errors.IoError(
            error.errno,
            f"cannot read the folder {folder}: {error.strerror or error}. Name the folder of a job's ranks.",
        ) from error
    if not traces:
        return _shards_in(folder, names)
    target, failed, temporary = converted(folder, traces, engine)
    shards = _shards_in(target, names_in(target), stamps)
    shards.problems = failed + shards.problems
    shards.keeper = (keeper, temporary, shards.keeper)
    return shards


def _copied(url: str, names: list[str]) -> tuple[str, Any]:
    """Copy traces from a store to a temporary folder, which lasts as long as the second value."""
    import shutil
    import tempfile

    keeper = tempfile.TemporaryDirectory(prefix="fastprof-ranks-")
    for name in names:
        with open_file(join(url, name)) as source, open(join(keeper.name, name), "wb") as target:
            shutil.copyfileobj(source, target)
    return keeper.name, keeper


def _is_shard(name: str) -> bool:
    return name.startswith("rank-") and name.endswith(".parquet")


def _may_be_manifest(name: str) -> bool:
    return name.startswith("rank-") and name.endswith(".json")


def _is_ours(name: str) -> bool:
    return _is_shard(name) or name.startswith(RECORDS)


def _shards_in(folder: str, names: list[str], stamps: dict[str, list[int]] | None = None) -> Shards:
    """Return the shards among files. stamps: of the traces, by name; shards of other traces are left out."""
    found: list[Shard] = []
    problems: list[str] = []
    described = set()
    present = set(names)
    for name in names:
        if not _may_be_manifest(name):
            continue
        try:
            manifest = read_manifest(join(folder, name))
        except (OSError, errors.FormatError) as error:
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
        shard = os.path.basename(manifest["shard"])
        if shard in present:
            found.append(Shard(join(folder, shard), manifest))
        else:
            problems.append(f"rank {manifest['rank']}: {manifest['shard']} is missing: left out")
    for name in names:
        if _is_shard(name) and name not in described:
            problems.append(
                f"{name}: without a manifest, so that rank ended while it wrote: left out"
            )
    paths: list[str] = []
    keeper: Any = None
    if any(name.startswith(RECORDS) for name in names):
        from fastprof.ranks.killed import recovered_shards  # and all that writes shards

        manifests = [each.manifest for each in found]
        paths, unread, keeper = recovered_shards(folder, names, manifests)
        problems += unread
    for path in paths:
        try:
            manifest = read_manifest(path)
        except (OSError, errors.FormatError) as error:
            problems.append(
                f"{os.path.basename(path)}: records with a damaged fact ({error}): left out"
            )
            continue
        if manifest is not None:
            found.append(Shard(os.path.join(os.path.dirname(path), manifest["shard"]), manifest))
    found.sort(key=lambda each: (each.rank, each.manifest["t0_ns"]))
    kept, others = newest_job([each.manifest for each in found])
    found = [found[at] for at in kept]
    world_size = found[0].manifest["world_size"] if found else 0
    problems += others
    return Shards(found, world_size, problems, keeper)
