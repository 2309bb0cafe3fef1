# SPDX-License-Identifier: Apache-2.0
"""Fixture for tests that probe torch's headers: a separate cache, empty at the start of each test file."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

COMPILER = os.environ.get("CXX", "c++")
needs_compiler = pytest.mark.skipif(
    shutil.which(COMPILER) is None, reason=f"needs a C++ compiler ({COMPILER})"
)


@pytest.fixture(scope="module", name="cache")
def cache_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(autouse=True)
def use_cache(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(cache))
