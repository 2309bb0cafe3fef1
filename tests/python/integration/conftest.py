# SPDX-License-Identifier: Apache-2.0
"""What tests of this folder share: a browser, and the double of libcupti."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from chromium import Chromium
from cuda_double import build_double, build_runtime_double, genuine_headers


@pytest.fixture(scope="module")
def browser() -> Iterator[Chromium]:
    with Chromium() as running:
        yield running


@pytest.fixture(scope="session")
def double(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_double(genuine_headers()[0], tmp_path_factory.mktemp("cupti"))


@pytest.fixture(scope="session")
def runtime_double(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_runtime_double(genuine_headers()[0], tmp_path_factory.mktemp("cudart"))
