# SPDX-License-Identifier: Apache-2.0
"""SiteTable and TrackTable: the targets of the site and track columns of an EventTable."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fastprof.base import errors
from fastprof.base.native_numbers import Category
from fastprof.base.record_scope import RecordScope

__all__ = [
    "MEMORY_EVENT_NAME",
    "OUT_OF_MEMORY_EVENT_NAME",
    "SAMPLE_CATEGORIES",
    "SHORTER_CALLS",
    "TASK_CATEGORIES",
    "TASK_SAMPLE",
    "Site",
    "SiteTable",
    "Track",
    "TrackTable",
]

# Categories of the rows of a task's lifetime and of its suspensions (csrc/include/fastprof/capture/capture.hpp).
TASK_CATEGORIES = frozenset({"task_lifetime", "task_await"})
# Categories of the rows of samples (decode/sample_rows.py): of threads, and of suspended tasks, which use no CPU.
TASK_SAMPLE = "task_sample"
SAMPLE_CATEGORIES = frozenset({"sample", TASK_SAMPLE})
# Name of rows that represent calls shorter than a bound (decode/short_calls.py).
SHORTER_CALLS = "[shorter calls]"
# Names of memory records and failed allocations that analysis/memory_attribution.py converts to rows; PyTorch's.
MEMORY_EVENT_NAME = "[memory]"
OUT_OF_MEMORY_EVENT_NAME = "[OutOfMemory]"


class Site(NamedTuple):
    """A place in the program that creates records (SiteInfo in capture.hpp). Immutable: any thread.

    mask: base.native_numbers.Category bits. kind: EventKind. color: 0xRRGGBB, 0 for none. arg_types:
    base.native_numbers.ArgType of each argument. device_type, device_index: of memory records, -1 for none.
    """

    name: str
    category: str = "user_annotation"
    file: str = ""
    function: str = ""
    line: int = 0
    color: int = 0
    mask: int = Category.USER.value
    kind: int = 0
    scope: int = RecordScope.USER_SCOPE.value
    arg_names: tuple[str, ...] = ()
    arg_types: tuple[int, ...] = ()
    device_type: int = -1
    device_index: int = -1


class Track(NamedTuple):
    """A thread, a task that ran on it, or a queue of a device (TrackInfo in capture.hpp). Immutable: any thread.

    id: unique in the table. pid, tid: the kernel's ids. alive: whether the thread still ran at the end.
    thread_id: for a task, the id of its thread's track; -1 otherwise.
    device_kind: for a queue of a plug-in's device, the name of the device ("npu"); else empty.
    """

    id: int
    pid: int = 0
    tid: int = 0
    name: str = ""
    alive: bool = True
    thread_id: int = -1
    device_kind: str = ""


class SiteTable:
    """The sites of a capture, one sequence per field; omitted fields have Site's default.

    `names` and every given field have one entry per site. Immutable. Any thread.
    """

    __slots__ = ("_cache", "_fields", "names")

    def __init__(self, names: Iterable[str], **fields: Iterable[Any]) -> None:
        self.names: tuple[str, ...] = tuple(names)
        self._fields: dict[str, tuple[Any, ...]] = {}
        self._cache: dict[str, Any] = {}
        for field, values in fields.items():
            if field not in Site._fields or field == "name":
                known = ", ".join(Site._fields[1:])
                raise errors.ValueError(f"unknown site field {field!r}. Use one of {known}.")
            kept = tuple(values)
            if len(kept) != len(self.names):
                raise errors.ValueError(
                    f"the site field {field!r} has {len(kept)} values for {len(self.names)} sites. Pass one"
                    " value per site."
                )
            self._fields[field] = kept

    @classmethod
    def from_sites(cls, sites: Iterable[Site]) -> SiteTable:
        """Return a table of Site values."""
        rows = list(sites)
        columns = list(zip(*rows, strict=True)) if rows else [()] * len(Site._fields)
        return cls(columns[0], **dict(zip(Site._fields[1:], columns[1:], strict=True)))

    def __reduce__(self) -> Any:
        return _site_table, (self.names, self._fields)  # cached values are recomputed

    def __len__(self) -> int:
        return len(self.names)

    def __getitem__(self, index: int) -> Site:
        values = {field: column[index] for field, column in self._fields.items()}
        return Site(self.names[index], **values)

    def __iter__(self) -> Iterator[Site]:
        return (self[i] for i in range(len(self)))

    def field(self, field: str) -> Sequence[Any]:
        """Return the values of a field of Site, one per site; the repeated default if the field was not given."""
        if field == "name":
            return self.names
        column = self._fields.get(field)
        if column is None:
            column = (Site._field_defaults[field],) * len(self.names)
        return column

    def column(self, name: str) -> NDArray[Any]:
        """Return an array with one value per site; EventTable computes its default columns from it.

        name: is_user_annotation, is_python_function or scope; KeyError otherwise.
        """
        cached = self._cache.get(name)
        if cached is None:
            if name == "is_user_annotation":
                wanted = ("user_annotation", "gpu_user_annotation")
                cached = np.fromiter((c in wanted for c in self.field("category")), np.bool_)
            elif name == "is_python_function":
                cached = np.fromiter(
                    (c == "python_function" for c in self.field("category")), np.bool_
                )
            elif name == "scope":
                cached = np.fromiter((int(s) for s in self.field("scope")), np.uint8)
            else:
                raise KeyError(name)
            cached.flags.writeable = False
            self._cache[name] = cached
        return cached

    def derived(self, name: str, compute: Callable[[], Any]) -> Any:
        """Return a value that depends only on the sites, computed once per `name`."""
        if name not in self._cache:
            self._cache[name] = compute()
        return self._cache[name]

    def _distinct(self) -> tuple[tuple[str, ...], NDArray[np.int32]]:
        cached = self._cache.get("distinct")
        if cached is None:
            index: dict[str, int] = {}
            codes = np.fromiter(
                (index.setdefault(name, len(index)) for name in self.names),
                np.int32,
                len(self.names),
            )
            codes.flags.writeable = False
            cached = self._cache["distinct"] = (tuple(index), codes)
        return cached

    @property
    def distinct_names(self) -> tuple[str, ...]:
        """Each name once, in the order of its first site."""
        return self._distinct()[0]

    @property
    def name_codes(self) -> NDArray[np.int32]:
        """Index of each site's name in distinct_names."""
        return self._distinct()[1]

    @property
    def names_distinct(self) -> bool:
        """Whether no two sites share a name; then a site's number equals its name code."""
        return len(self.distinct_names) == len(self.names)


def _site_table(names: tuple[str, ...], fields: dict[str, tuple[Any, ...]]) -> SiteTable:
    return SiteTable(names, **fields)


class TrackTable:
    """The tracks (threads, tasks, queues of devices) of a capture. Immutable: any thread."""

    __slots__ = ("ids", "rows", "thread_ids")

    def __init__(self, rows: Iterable[Track]) -> None:
        self.rows = tuple(rows)
        self.ids: NDArray[np.int64] = np.fromiter((t.id for t in self.rows), np.int64)
        self.ids.flags.writeable = False
        # Id of the thread's track: for tracks of threads, their own.
        self.thread_ids: NDArray[np.int64] = np.fromiter(
            (t.thread_id if t.thread_id >= 0 else t.id for t in self.rows), np.int64
        )
        self.thread_ids.flags.writeable = False

    def __reduce__(self) -> Any:
        return TrackTable, (self.rows,)

    @classmethod
    def from_tracks(cls, tracks: Iterable[Track]) -> TrackTable:
        """Return a table of Track values."""
        return cls(tracks)

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, index: int) -> Track:
        return self.rows[index]

    def __iter__(self) -> Iterator[Track]:
        return iter(self.rows)
