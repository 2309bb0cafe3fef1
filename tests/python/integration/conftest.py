# SPDX-License-Identifier: Apache-2.0
"""What tests of this folder share: a browser, the double of libcupti, and a folder of recorders."""

from __future__ import annotations

import shutil
import tempfile
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


@pytest.fixture
def folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Path]:
    """The folder of flight recorders. Its name is short, because the path of a socket has at most 107 bytes."""
    path = tempfile.mkdtemp(prefix="fp")
    monkeypatch.setenv("FASTPROF_PROCESS_FOLDER", path)
    monkeypatch.setenv("FASTPROF_FLIGHT_RECORDER", f"max_bytes={8 << 20},dump_folder={tmp_path}")
    yield Path(path)
    shutil.rmtree(path)
