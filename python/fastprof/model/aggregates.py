# SPDX-License-Identifier: Apache-2.0
"""Aggregates: statistics of ranges per name over minutes, hours or days, as a flight recorder keeps them."""

from __future__ import annotations

import itertools
import json
import os
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from fastprof.base import errors
from fastprof.base.atomic_file import atomic_binary

__all__ = ["RELATIVE_ACCURACY", "SUFFIX", "Aggregates", "is_aggregate_file"]

Array: TypeAlias = NDArray[Any]

SUFFIX = ".aggregates"
RELATIVE_ACCURACY = 0.01
# Bins of csrc/include/fastprof/capture/duration_sketch.hpp: bin i has durations in (GAMMA^(i-1), GAMMA^i] ns.
GAMMA = (1 + RELATIVE_ACCURACY) / (1 - RELATIVE_ACCURACY)
_FORMAT = 1
_SUMS = ("count", "zeros", "collapsed", "total_ns", "self_ns")
_MOST_FILE_BYTES = 1 << 30


@dataclass(frozen=True)
class Aggregates:
    """Statistics per (name, category), a row each. Immutable; any thread may read it. Times are in ns.

    count, total_ns, self_ns, min_ns, max_ns: of finished ranges. self_ns: without direct children and suspensions of
    their task; 0 for a range that another thread ends. bins, bin_counts: a histogram of the durations above 0 ns,
    numbered as by DDSketch's logarithmic mapping with 1 %; row i has entries bin_ends[i - 1] to bin_ends[i]. zeros:
    durations of 0 ns. collapsed: durations in another bin than theirs, because a window of a name has at most 6 kB.

    facts: window ("minute", "hour", "all"), from_unix_ns, to_unix_ns, ranges, open (not finished, in no row),
    dropped (missed), pid, program, rank, files (how many were merged).
    """

    names: tuple[str, ...]
    categories: tuple[str, ...]
    count: Array
    zeros: Array
    collapsed: Array
    total_ns: Array
    self_ns: Array
    min_ns: Array
    max_ns: Array
    bin_ends: Array
    bins: Array
    bin_counts: Array
    facts: dict[str, Any]

    def __len__(self) -> int:
        return len(self.names)

    @classmethod
    def of_columns(cls, columns: dict[str, Any], facts: dict[str, Any]) -> Aggregates:
        """Return those of _core.Aggregator.columns(). Raises errors.FormatError if they are inconsistent."""
        rows = len(columns["count"])
        values: dict[str, Any] = {
            name: np.asarray(columns[name]) for name in cls.__dataclass_fields__ if name in columns
        }
        values["names"] = _texts(columns["names"], columns["name_ends"], rows)
        values["categories"] = _texts(columns["categories"], columns["category_ends"], rows)
        per_row = [*_SUMS, "min_ns", "max_ns", "bin_ends"]
        ends = values["bin_ends"]
        if (
            any(values[name].shape != (rows,) for name in per_row)
            or values["bins"].shape != values["bin_counts"].shape
            or _last(ends) != values["bins"].size
            or (rows and (np.diff(ends.astype(np.int64), prepend=0) < 0).any())
        ):
            raise errors.FormatError("the columns of the aggregates do not fit together")
        return cls(**values, facts=facts)

    # ---- one row -------------------------------------------------------------------------------

    def histogram(self, row: int) -> tuple[Array, Array]:
        """Return (bins, counts) of a row, ascending. Raises errors.ValueError for a row that there is not."""
        try:
            row = range(len(self))[row]
        except (IndexError, TypeError):
            raise errors.ValueError(
                f"there is no row {row!r}: use a number from 0 to {len(self) - 1}"
            ) from None
        begin = int(self.bin_ends[row - 1]) if row else 0
        end = int(self.bin_ends[row])
        return self.bins[begin:end], self.bin_counts[begin:end]

    def quantile_ns(self, row: int, q: float) -> float:
        """Return the quantile q (0 to 1) of the durations of a row: within 1 % of the exact one (the nearest rank).

        Raises errors.ValueError for another q, and for a row that there is not.
        """
        if not 0 <= q <= 1:
            raise errors.ValueError(f"invalid quantile {q!r}. Use a number from 0 to 1.")
        bins, counts = self.histogram(row)
        rank = q * (int(self.count[row]) - 1)
        if rank < int(self.zeros[row]) or not bins.size:
            return 0.0
        seen = int(self.zeros[row]) + np.cumsum(counts, dtype=np.int64)
        at = min(int(np.searchsorted(seen, rank, side="right")), bins.size - 1)
        value = 2 * GAMMA ** int(bins[at]) / (1 + GAMMA)
        return float(min(max(value, float(self.min_ns[row])), float(self.max_ns[row])))

    def table(self, sort_by: str = "self", row_limit: int = 30) -> str:
        """Return a table of text: times, quantiles and count per name.

        sort_by: self, total, count, mean, max or name. row_limit: -1 for all. Raises errors.ValueError otherwise.
        """
        from fastprof.model.aggregate_table import aggregate_notes, aggregate_table

        return "\n".join([*aggregate_notes(self), aggregate_table(self, sort_by, row_limit)])

    # ---- several -------------------------------------------------------------------------------

    @classmethod
    def merged(cls, parts: Sequence[Aggregates]) -> Aggregates:
        """Return the aggregates of several processes, ranks or windows as one: rows are joined by name and category.

        Exact: counts, sums and bins are added. Raises errors.ValueError without parts.
        """
        if not parts:
            raise errors.ValueError("no aggregates to merge. Give one or more.")
        rows: dict[tuple[str, str], list[tuple[Aggregates, int]]] = {}
        for part in parts:
            for row, key in enumerate(zip(part.names, part.categories, strict=True)):
                rows.setdefault(key, []).append((part, row))
        columns: dict[str, list[Any]] = {
            name: [] for name in (*_SUMS, "min_ns", "max_ns", "bin_ends")
        }
        bins: list[Array] = []
        counts: list[Array] = []
        size = 0
        for members in rows.values():
            for name in _SUMS:
                columns[name].append(sum(int(getattr(part, name)[row]) for part, row in members))
            columns["min_ns"].append(min(int(part.min_ns[row]) for part, row in members))
            columns["max_ns"].append(max(int(part.max_ns[row]) for part, row in members))
            found = [part.histogram(row) for part, row in members]
            numbers, places = np.unique(
                np.concatenate([each[0] for each in found]), return_inverse=True
            )
            sums = np.zeros(numbers.size, np.uint64)
            np.add.at(sums, places, np.concatenate([each[1] for each in found]))
            bins.append(numbers)
            counts.append(sums)
            size += numbers.size
            columns["bin_ends"].append(size)
        unsigned = ("count", "zeros", "collapsed", "bin_ends")
        return cls(
            names=tuple(name for name, _ in rows),
            categories=tuple(category for _, category in rows),
            bins=np.concatenate([np.zeros(0, np.uint16), *bins]).astype(np.uint16),
            bin_counts=np.concatenate([np.zeros(0, np.uint64), *counts]),
            facts=_merged_facts([part.facts for part in parts]),
            **{
                name: np.array(values, np.uint64 if name in unsigned else np.int64)
                for name, values in columns.items()
            },
        )

    # ---- files ---------------------------------------------------------------------------------

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write a file that `fastprof report` and load() read, and numpy.load() as well. An existing one is replaced.

        Raises errors.IoError if it cannot be written; nothing is left of it then.
        """
        arrays: dict[str, Any] = {
            name: getattr(self, name)
            for name in (*_SUMS, "min_ns", "max_ns", "bin_ends", "bins", "bin_counts")
        }
        for name, end, texts in (
            ("names", "name_ends", self.names),
            ("categories", "category_ends", self.categories),
        ):
            encoded = [text.encode("utf-8", "surrogatepass") for text in texts]
            arrays[name] = np.frombuffer(b"".join(encoded), np.uint8)
            arrays[end] = np.cumsum([len(text) for text in encoded], dtype=np.uint64)
        facts = json.dumps({"fastprof_aggregates": _FORMAT, **self.facts}).encode()
        with atomic_binary(path, compressed=False) as file:
            np.savez_compressed(file, facts=np.frombuffer(facts, np.uint8), **arrays)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Aggregates:
        """Return the aggregates of a file that save() has written.

        Raises errors.IoError if it cannot be read, errors.FormatError if it is another file or damaged.
        """
        name = os.fspath(path)
        try:
            with zipfile.ZipFile(name) as archive:
                if sum(each.file_size for each in archive.infolist()) > _MOST_FILE_BYTES:
                    raise errors.FormatError(f"{name}: more than 1 GiB of aggregates")
            with np.load(name, allow_pickle=False) as members:
                columns = {key: members[key] for key in members.files}
            facts = json.loads(bytes(columns.pop("facts")).decode())
            if facts.pop("fastprof_aggregates") != _FORMAT:
                raise errors.FormatError(
                    f"{name}: aggregates of another version of fastprof; read them with that one"
                )
            for key in ("names", "categories"):
                columns[key] = bytes(columns[key])
            return cls.of_columns(columns, facts)
        except errors.Error:
            raise
        except OSError as error:
            raise errors.IoError(f"cannot read {name}: {error.strerror or error}") from error
        except Exception as error:  # whatever zipfile, zlib, NumPy and json raise for damaged bytes
            raise errors.FormatError(
                f"{name}: damaged, or no aggregates of fastprof: {error}"
            ) from error


def is_aggregate_file(path: str | os.PathLike[str]) -> bool:
    """Return whether `path` is a file of aggregates, by its content."""
    try:
        with zipfile.ZipFile(path) as archive:
            return {"facts.npy", "bin_counts.npy"} <= set(archive.namelist())
    except (OSError, zipfile.BadZipFile):
        return False


def _texts(joined: bytes, ends: Array, rows: int) -> tuple[str, ...]:
    bounds = [0, *np.asarray(ends).tolist()]
    if len(bounds) != rows + 1 or bounds[-1] != len(joined):
        raise errors.FormatError("the names of the aggregates do not fit their rows")
    return tuple(
        joined[begin:end].decode("utf-8", "replace") for begin, end in itertools.pairwise(bounds)
    )


def _last(ends: Array) -> int:
    return int(ends[-1]) if ends.size else 0


def _merged_facts(each: list[dict[str, Any]]) -> dict[str, Any]:
    facts = dict(each[0])
    if len(each) == 1:
        return facts
    for name in ("pid", "program", "rank", "window"):
        if len({str(part.get(name)) for part in each}) > 1:
            facts.pop(name, None)
    for name in ("ranges", "open", "dropped"):
        facts[name] = sum(int(part.get(name, 0)) for part in each)
    facts["files"] = sum(int(part.get("files", 1)) for part in each)
    for name, choose in (("from_unix_ns", min), ("to_unix_ns", max)):
        known = [int(part[name]) for part in each if name in part]
        if known:
            facts[name] = choose(known)
    return facts
