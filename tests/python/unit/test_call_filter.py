# SPDX-License-Identifier: Apache-2.0
"""CallFilter: accepted values, absolute paths."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from fastprof import CallFilter, errors


def test_everything_is_recorded_by_default() -> None:
    chosen = CallFilter()
    assert chosen.files == chosen.exclude_files == chosen.modules == chosen.exclude_modules == ()
    assert chosen.c_calls is True and chosen.max_depth is None


def test_files_become_absolute_and_modules_stay(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    chosen = CallFilter(
        files=["a.py", Path("b"), "<string>"],  # type: ignore[arg-type]
        exclude_files=("c/../d",),
        modules=["a.py"],  # type: ignore[arg-type]
        exclude_modules=iter(["d"]),  # type: ignore[arg-type]
    )
    assert chosen.files == (f"{tmp_path}/a.py", f"{tmp_path}/b", "<string>")
    assert chosen.exclude_files == (f"{tmp_path}/d",)
    assert chosen.modules == ("a.py",) and chosen.exclude_modules == ("d",)


@pytest.mark.parametrize("name", ["files", "exclude_files", "modules", "exclude_modules"])
@pytest.mark.parametrize("value", ["torch", Path("torch")])
def test_one_name_is_no_list(name: str, value: Any) -> None:
    with pytest.raises(errors.ValueError, match=rf"CallFilter: {name} must be a list"):
        CallFilter(**{name: value})


def test_depths() -> None:
    for wrong in (0, -1, 1 << 32):
        with pytest.raises(errors.ValueError, match=f"max_depth must be at least 1, not {wrong}"):
            CallFilter(max_depth=wrong)
    for allowed in (None, 1, (1 << 32) - 1):
        assert CallFilter(max_depth=allowed).max_depth == allowed
