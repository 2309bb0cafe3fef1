# SPDX-License-Identifier: Apache-2.0
"""The stub of the native module says what the module really offers."""

from __future__ import annotations

import importlib.util

import pytest
import stubs


@pytest.mark.skipif(
    importlib.util.find_spec("pybind11_stubgen") is None, reason="pybind11-stubgen is not installed"
)
def test_the_stub_is_that_of_the_built_module() -> None:
    assert stubs.STUB.read_text() == stubs.generate(), "run `make stubs` and commit _core.pyi"


def test_every_name_of_the_module_is_in_the_stub() -> None:
    """Holds without the generator too."""
    from fastprof import _core

    text = stubs.STUB.read_text()
    names = [name for name in dir(_core) if not name.startswith("_")]
    assert names
    assert [name for name in names if f'"{name}"' not in text] == []
