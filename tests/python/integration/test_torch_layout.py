# SPDX-License-Identifier: Apache-2.0
"""A torch that the table of layouts does not list: its headers are probed, and the self-test decides."""

from __future__ import annotations

import textwrap
import types
from pathlib import Path

import pytest
from layout_cache import cache_folder, needs_compiler, use_cache  # noqa: F401
from processes import python

from fastprof.adapters.torch import headers as torch_headers
from fastprof.adapters.torch.headers import LayoutError, layout_from_headers
from fastprof.adapters.torch.layout import FIELDS
from fastprof.adapters.torch.versions import cxx11_abi

torch = pytest.importorskip("torch")
pytestmark = [pytest.mark.integrations, needs_compiler]


def test_ops_of_a_torch_outside_the_table(cache: Path) -> None:
    code = """
        import torch
        from fastprof import _core
        _core.torch_known_layout = lambda version, cxx11_abi: None
        import fastprof
        with fastprof.profile() as p:
            torch.add(torch.ones(3), 1)
        print(sorted({e.name for e in p.events()}), p.missing.get("torch_ops"))
    """
    ran = python("-c", textwrap.dedent(code), check=True)
    assert "aten::add" in ran.stdout and ran.stdout.rstrip().endswith("None")


def test_what_is_missing_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    nowhere = types.SimpleNamespace(__version__="99.1", __file__=str(tmp_path / "__init__.py"))
    with pytest.raises(LayoutError, match="headers are not installed"):
        layout_from_headers(nowhere, "ops")
    header = tmp_path / "include" / "ATen" / "record_function.h"
    header.parent.mkdir(parents=True)
    header.write_text("namespace at { struct RecordFunction {}; }\n")
    with pytest.raises(LayoutError, match=r"cannot compile the probe.*error"):
        layout_from_headers(nowhere, "ops")
    monkeypatch.setenv("CXX", "no-such-compiler")
    torch_headers._answered.clear()
    with pytest.raises(LayoutError, match=r"needs a C\+\+ compiler.*no-such-compiler"):
        layout_from_headers(nowhere, "ops")


@pytest.mark.parametrize("field", FIELDS)
def test_a_wrong_layout_is_refused_by_the_self_test(field: str) -> None:
    # In its own process, because a layout that passed the self-test is kept.
    code = f"""
        import torch
        from fastprof import _core
        from fastprof.adapters.torch.layout import FIELDS
        layout = list(_core.torch_known_layout(torch.__version__, {cxx11_abi(torch)}))
        layout[FIELDS.index({field!r})] += 8
        print(_core.torch_prepare("99.1.0", {cxx11_abi(torch)}, layout))
    """
    ran = python("-c", textwrap.dedent(code), check=True)
    assert "differs from that of the official build" in ran.stdout
