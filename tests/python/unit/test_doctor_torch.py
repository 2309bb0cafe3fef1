# SPDX-License-Identifier: Apache-2.0
"""fastprof doctor: torch is imported in another process; doctor prints the answer or failure of that process."""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest

from fastprof.cli import torch_check


def findings(code: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> list[tuple[bool, str]]:
    """Return what doctor finds when this code is the module torch."""
    (folder / "torch.py").write_text(textwrap.dedent(code))
    monkeypatch.setenv("PYTHONPATH", str(folder))
    return list(torch_check.torch_findings("9.9"))


def test_a_torch_that_cannot_be_imported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ((ok, text),) = findings("raise ImportError('libcudnn.so is not there')", tmp_path, monkeypatch)
    assert not ok and "9.9: the test profile in a separate process failed" in text
    assert "libcudnn.so is not there" in text


def test_a_torch_that_does_not_come_to_an_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch_check, "_LIMIT_S", 1)
    ((ok, text),) = findings("import time; time.sleep(60)", tmp_path, monkeypatch)
    assert not ok and "exceeded 1 s" in text


def test_a_torch_whose_ops_cannot_be_observed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    code = """
        import contextlib
        __version__ = "2.5.0"
        uint8 = 0
        class Tensor:
            def add(self, other): pass
        def empty(*_, **__): return Tensor()
        inference_mode = contextlib.nullcontext
    """
    ((ok, text),) = findings(code, tmp_path, monkeypatch)
    assert not ok and text.startswith("2.5.0: ops are not recorded: torch ops are not recorded: ")
    assert "has no layout for torch 2.5.0" in text
