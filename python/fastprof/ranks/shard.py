# SPDX-License-Identifier: Apache-2.0
"""A rank's shard: its events as one Parquet file, and a JSON manifest that says where they come from.

Columns: COLUMNS. Integers are stored by byte stream split and zstd, so that an event takes 5 to 8 bytes. The
manifest is written last: a shard without one is of a rank that did not finish writing.
"""

from __future__ import annotations

import json
import os
import platform
import secrets
import sys
import time
import zlib
from collections.abc import Mapping, Sequence
from operator import index
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from fastprof._version import __version__
from fastprof.base.optional_package import optional_package
from fastprof.model.table import EventTable
from fastprof.model.tree import EventTree
from fastprof.ranks.collective_calls import CollectiveCalls, collective_calls
from fastprof.ranks.device_links import device_links
from fastprof.ranks.environment import RankFacts
from fastprof.ranks.event_names import NO_WAIT
from fastprof.ranks.host_groups import RecordedCall
from fastprof.ranks.manifest import FORMAT
from fastprof.ranks.places import complete_file, join, remove_file
from fastprof.ranks.step_rows import step_rows

__all__ = [
    "COLUMNS",
    "clock_pair",
    "process_token",
    "shard_stem",
    "versions",
    "write_shard",
]

Array: TypeAlias = NDArray[Any]
_PROCESS = secrets.token_hex(
    4
)  # with the pid, unlike that of any other process in a container of its own
# Name -> meaning. The four before the last are null for all events but collectives.
COLUMNS = {
    "rank": "number of the rank",
    "start_ns": "begin, Unix ns of the rank's clock",
    "duration_ns": "duration in ns",
    "name": "name of the event",
    "category": "category, as in Kineto's traces: cpu_op, kernel, gpu_memcpy, user_annotation, ...",
    "thread": "number of the thread or stream within the rank",
    "parent": "row of the enclosing event in the shard, -1 for none",
    "correlation": "links device work with the host event that launched it, 0 for none",
    "collective": "kind of collective, such as all_reduce",
    "group": "process group of a collective",
    "sequence": "number of a collective within its group",
    "size_bytes": "bytes that a rank contributes to a collective, -1: unknown",
    "waits_for": "row of the device work that a recorded wait (cuda_sync) waited for, -1: unknown; null: no wait",
}


def clock_pair() -> dict[str, int]:
    """Return CLOCK_REALTIME and CLOCK_MONOTONIC at one time, in ns, and the bound of the pair's error (width_ns).

    The narrowest of five readings. Any thread.
    """
    best: dict[str, int] = {}
    for _ in range(5):
        before = time.monotonic_ns()
        wall = time.time_ns()
        after = time.monotonic_ns()
        if not best or after - before < best["width_ns"]:
            best = {
                "realtime_ns": wall,
                "monotonic_ns": (before + after) // 2,
                "width_ns": after - before,
            }
    return best


def process_token() -> str:
    """Return a name of this process that no other process of the job has. Any thread."""
    return f"{_PROCESS}-{os.getpid()}"


def shard_stem(rank: int, part: int = 0) -> str:
    """Return the name of a rank's files without suffix. part: number of the recording within the process."""
    return f"rank-{rank:05}" + (f".{part + 1}" if part else "")


def write_shard(
    table: EventTable,
    folder: str,
    facts: RankFacts,
    *,
    stem: str = "",
    clock: Mapping[str, Any] | None = None,
    missing: Mapping[str, str] | None = None,
    details: Mapping[str, Any] | None = None,
    recorded: Sequence[RecordedCall] | None = None,
    calls: CollectiveCalls | None = None,
) -> str:
    """Write the Parquet file and the manifest of a rank into a folder, a path or URL; return the path of the manifest.

    stem: of the files' names; default: shard_stem(rank). clock: pairs of clock_pair() by "start" and "end". missing:
    what was not recorded, by name. details: further members of the manifest. recorded: recorded_calls() of the process.
    calls: the table's collectives, if they are known.
    Both files appear complete or not at all. Raises errors.UnavailableError without pyarrow and errors.IoError if a
    file cannot be written.
    """
    arrow = optional_package("pyarrow", "ranks")
    parquet = optional_package("pyarrow.parquet", "ranks")
    if calls is None:
        calls = collective_calls(table, facts.groups, rank=facts.rank, recorded=recorded)
    columns = _columns(arrow, table, facts.rank, calls)
    stem = join(folder, stem or shard_stem(facts.rank))
    # Integers by byte stream split came with pyarrow 17.
    split = int(arrow.__version__.split(".")[0]) >= 17
    encoding = "BYTE_STREAM_SPLIT" if split else "DELTA_BINARY_PACKED"
    texts = [name for name, column in columns.items() if arrow.types.is_dictionary(column.type)]
    written = arrow.BufferOutputStream()
    parquet.write_table(
        arrow.table(columns),
        written,
        compression="zstd",
        use_dictionary=texts,
        column_encoding={name: encoding for name in columns if name not in texts},
        row_group_size=1 << 20,
        write_statistics=["rank", "start_ns"],  # what readers skip files by; all take a quarter
    )
    data = written.getvalue()
    steps, origin = step_rows(table)
    manifest = {
        "format": FORMAT,
        "shard": os.path.basename(f"{stem}.parquet"),
        "crc32": zlib.crc32(data),
        **facts._asdict(),
        "host": platform.node(),
        "pid": table.pid or os.getpid(),
        "process": process_token(),
        "versions": versions(),
        "events": len(table),
        "t0_ns": table.t0_ns,
        "t1_ns": table.t1_ns,
        "clock_error_ns": table.clock_error_ns,
        "clock": dict(clock or {}),
        "dropped": dict(table.dropped),
        "missing": {**(missing or {}), **calls.missing},
        "threads": [[track.tid, track.name] for track in table.tracks],
        "steps": steps,
        "steps_are": origin,
        **(details or {}),
    }
    text = json.dumps(manifest, default=index).encode()  # numbers of NumPy, too
    with complete_file(f"{stem}.parquet") as file:
        file.write(data)
    try:
        with complete_file(f"{stem}.json") as file:
            file.write(text)
    except BaseException:
        remove_file(f"{stem}.parquet")  # without its manifest nobody reads it
        raise
    return f"{stem}.json"


def versions() -> dict[str, str]:
    """Return the versions of fastprof, Python and, if it is loaded, torch. Any thread."""
    found = {"fastprof": __version__, "python": platform.python_version()}
    torch = sys.modules.get("torch")
    if torch is not None:
        found["torch"] = str(getattr(torch, "__version__", ""))
    return found


def _columns(arrow: Any, table: EventTable, rank: int, calls: CollectiveCalls) -> dict[str, Any]:
    size = len(table)
    site = table.column("site").astype(np.int32)
    of_name = table.sites.name_codes
    categories, of_category = _coded(list(map(str, table.sites.field("category"))))
    links = device_links(table)
    columns: dict[str, Any] = {
        "rank": arrow.array(np.full(size, rank, np.int32)),
        "start_ns": arrow.array(table.start_ns),
        "duration_ns": arrow.array(table.end_ns - table.start_ns),
        "name": _dictionary(arrow, of_name[site], list(table.names)),
        "category": _dictionary(arrow, of_category[site], categories),
        "thread": arrow.array(table.column("track").astype(np.int32)),
        "parent": arrow.array(EventTree.of(table).parent_rows().astype(np.int32)),
        "correlation": arrow.array(links.correlation),
    }
    for name, texts in (("collective", calls.kind), ("group", calls.group)):
        values, codes = _coded(texts)
        wide = np.full(size, -1, np.int32)
        wide[calls.rows] = codes
        columns[name] = _dictionary(arrow, wide, values)
    for name, numbers in (("sequence", calls.sequence), ("size_bytes", calls.size_bytes)):
        full = np.zeros(size, np.int64)
        full[calls.rows] = numbers
        absent = np.ones(size, np.bool_)
        absent[calls.rows] = False
        columns[name] = arrow.array(full, mask=absent)
    waits_for = links.waits_for.astype(np.int32)
    columns["waits_for"] = arrow.array(waits_for, mask=links.waits_for == NO_WAIT)
    return columns


def _coded(texts: list[str]) -> tuple[list[str], Array]:
    index: dict[str, int] = {}
    codes = np.fromiter((index.setdefault(text, len(index)) for text in texts), np.int32)
    return list(index), codes


def _dictionary(arrow: Any, codes: Array, values: list[str]) -> Any:
    absent = codes < 0
    indices = arrow.array(codes.astype(np.int32, copy=False), mask=absent if absent.any() else None)
    clean = [value.encode("utf-8", "backslashreplace").decode() for value in values]
    texts = arrow.array(clean, arrow.string())
    return arrow.DictionaryArray.from_arrays(indices, texts, safe=False)  # codes are in range
