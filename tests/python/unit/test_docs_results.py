# SPDX-License-Identifier: Apache-2.0
"""The Python examples of docs/results.md run as they stand."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[3]


@pytest.mark.integrations
def test_examples_run(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("pandas")
    monkeypatch.chdir(tmp_path)  # one writes a file
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "results.md").read_text(), re.S)
    assert len(blocks) == 7
    names: dict[str, Any] = {}
    for block in blocks:
        exec(block, names)
    assert "step        66.67%" in capsys.readouterr().out
    assert len(names["averages"]) == 2


def test_named_modules_exist() -> None:
    text = (ROOT / "docs" / "results.md").read_text()
    for module in set(re.findall(r"fastprof\.([a-z_]+(?:\.[a-z_]+)?)\.\w+\(", text)):
        path = ROOT / "python" / "fastprof" / (module.replace(".", "/") + ".py")
        assert path.is_file() or path.with_suffix("").is_dir(), module
