# SPDX-License-Identifier: Apache-2.0
"""Columns of rows that tell of devices, by a table written by hand."""

from __future__ import annotations

from typing import Any

import numpy as np

from fastprof.base.native_numbers import Category
from fastprof.decode.device_columns import device_columns
from fastprof.model.table import SiteTable, Track, TrackTable

# range a | call b in a | call c in no range | kernel of b, kernel of c, wait of b
SITES = SiteTable(
    ("range", "launch", "kernel", "wait", "kernel"),
    category=("user_annotation", "cuda_runtime", "kernel", "cuda_sync", "gpu_memcpy"),
    mask=(Category.USER, Category.RUNTIME, Category.DEVICE, Category.DEVICE, Category.DEVICE),
    device_type=(-1, -1, 1, 1, 1),
    device_index=(-1, -1, 2, 2, 3),
)
TRACKS = TrackTable([Track(5, 100, 200, "main", True, -1), Track(6, 2, 7, "stream 7", True, -1)])
COLUMNS = {
    "site": np.array([0, 1, 1, 2, 2, 3, 4], np.uint32),
    "track": np.array([0, 0, 0, 1, 1, 1, 1], np.uint32),
    "start_ns": np.array([0, 10, 200, 50, 250, 60, 70], np.int64),
    "end_ns": np.array([100, 20, 210, 90, 260, 65, 79], np.int64),
}


class Links:
    """A capture's links: row, call, range, correlation."""

    def __init__(self, *links: tuple[int, int, int, int]) -> None:
        self._links = links

    def device_links(self) -> Any:
        columns = zip(*self._links, strict=True) if self._links else [()] * 4
        return tuple(np.array(column, np.int64) for column in columns)


def test_rows_of_devices_and_their_launchers() -> None:
    links = Links(
        (1, -1, 0, 11), (2, -1, -1, 12), (3, 1, 0, 11), (4, 2, -1, 12), (5, 1, 0, 11), (6, 1, 0, 11)
    )
    found = device_columns(links, COLUMNS, SITES, TRACKS)
    assert found is not None
    columns = {name: list(values) for name, values in found.columns.items()}
    assert columns == {
        "device_type": [0, 0, 0, 1, 1, 1, 1],
        "device_index": [0, 0, 0, 2, 2, 2, 3],
        "device_resource_id": [5, 5, 5, 7, 7, 7, 7],
        "external_id": [1, 0, 0, 0, 0, 0, 0],
        "linked_correlation_id": [0, 1, 0, 1, 0, 1, 1],
    }
    kernels = found.kernels
    assert kernels is not None  # of b: a wait is not attached, nor what no range launched
    assert [kernels.names[code] for code in kernels.name] == ["kernel", "kernel"]
    assert (list(kernels.row), list(kernels.device), list(kernels.duration_ns)) == (
        [0, 0],
        [2, 3],
        [40, 9],
    )


def test_kernels_are_sorted_by_the_range_that_launched_them() -> None:
    columns = {**COLUMNS, "site": np.array([0, 0, 1, 2, 2, 2, 2], np.uint32)}
    links = Links((2, -1, 0, 1), (3, 2, 1, 1), (4, 2, 0, 1), (5, 2, 1, 1), (6, 2, 0, 1))
    found = device_columns(links, columns, SITES, TRACKS)
    assert found is not None and found.kernels is not None
    assert list(found.kernels.row) == [0, 0, 1, 1]
    assert list(found.kernels.duration_ns) == [10, 9, 40, 5]


def test_without_devices_there_is_nothing() -> None:
    assert device_columns(Links(), COLUMNS, SITES, TRACKS) is None


def test_calls_alone_have_no_kernels() -> None:
    found = device_columns(Links((1, -1, 0, 1)), COLUMNS, SITES, TRACKS)
    assert found is not None and found.kernels is None
