# SPDX-License-Identifier: Apache-2.0
"""The stub of the native module says what the module really offers."""

from __future__ import annotations

import ast
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

    defined = set()
    for item in ast.parse(stubs.STUB.read_text()).body:
        if isinstance(item, ast.ClassDef | ast.FunctionDef):
            defined.add(item.name)
        elif isinstance(item, ast.AnnAssign):
            defined.add(ast.unparse(item.target))
    names = {name for name in dir(_core) if not name.startswith("_")}
    assert names
    assert names - defined == set()
