# SPDX-License-Identifier: Apache-2.0
"""Write memory by category over time as JSON, in the two formats of PyTorch's export_memory_timeline."""

from __future__ import annotations

import json
import os
from typing import Any

from fastprof.analysis.memory_categories.kinds import CATEGORY_ORDER, Action
from fastprof.analysis.memory_categories.profile import MemoryProfile
from fastprof.analysis.memory_categories.totals import category_totals
from fastprof.base import errors
from fastprof.base.atomic_file import atomic_text
from fastprof.base.device_type import is_device
from fastprof.exporters.category_page import write_page

__all__ = ["export_category_timeline"]


def export_category_timeline(
    profile: MemoryProfile, path: str | os.PathLike[str], device: str | None = None
) -> None:
    """Write the memory of one device by category, in the format of the suffix (.gz may follow).

    device: "cuda:0", or "cpu" for the first of a type; default: the one with the highest peak, and for a page
    all devices.

    .json: [times, sizes]: times in us; sizes[i] is 0 followed by the bytes of each category at times[i],
    by CATEGORY_ORDER. .raw.json: [time in ns, Action, bytes, index into CATEGORY_ORDER] for each change,
    a change of version as two; time -1: before the session. .html: a page with a plot and what the peak
    consists of, without scripts and links.

    Raises errors.ValueError for another suffix or an unknown device, errors.IoError if the file cannot
    be written.
    """
    totals = category_totals(profile)
    chosen = [t for t in totals if is_device(t.device, device)]
    if not chosen:
        known = ", ".join(t.device for t in totals) or "no device"
        raise errors.ValueError(
            f"no memory of {device} was recorded, only of {known}. Name one of these."
        )
    one = max(chosen, key=lambda t: int(t.total.max())) if device is None else chosen[0]
    name = os.fsdecode(path).removesuffix(".gz")
    if name.endswith(".html"):
        with atomic_text(path) as file:
            write_page(file, profile, chosen if device is None else [one])
        return
    if not name.endswith(".json"):
        raise errors.ValueError(
            f"cannot write {path}: unknown suffix. Use .html, .json, .raw.json, or .csv (totals), with or without .gz."
        )
    document: Any
    if name.endswith(".raw.json"):
        document = _changes(profile, one.device)
    else:
        # One row per us: the state after the last change in it.
        rows = dict(
            zip((one.time_ns // 1000).tolist(), ([0, *b] for b in one.bytes.tolist()), strict=True)
        )
        document = [list(rows), list(rows.values())]
    with atomic_text(path) as file:
        json.dump(document, file, allow_nan=False)
        file.write("\n")


def _changes(profile: MemoryProfile, device: str) -> list[tuple[int, int, int, int]]:
    number = {category: i for i, category in enumerate(CATEGORY_ORDER)}
    found = []
    for time, action, storage, version, size in profile.timeline:
        if profile.storages[storage].device != device:
            continue
        category = number[profile.category(storage, version)]
        gone = action in (Action.DESTROY, Action.INCREMENT_VERSION)
        found.append((time, action.value, -size if gone else size, category))
        if action is Action.INCREMENT_VERSION:
            after = number[profile.category(storage, version + 1)]
            found.append((time, action.value, size, after))
    return found
