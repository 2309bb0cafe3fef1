# SPDX-License-Identifier: Apache-2.0
"""Paths of calls are shortened in texts, and nothing else is."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from fastprof.base.short_paths import shorten_paths


@pytest.mark.parametrize(
    ("text", "short"),
    [
        ("/srv/u/train.py(12): step", "train.py(12): step"),
        ("5 % 3 ms  /srv/u/a b/train.py(12): step  (3 calls)", "5 % 3 ms  a b/train.py(12): step  (3 calls)"),
        ("/srv/user/train.py(12): step", "/srv/user/train.py(12): step"),
        ("/usr/lib/python3.11/threading.py(5): run", "threading.py(5): run"),
        ("blocked at /srv/u/a/b.py:12 in f() 3 times", "blocked at a/b.py:12 in f() 3 times"),
        ("/v/lib/python3.13t/site-packages/torch/x.py(3): f", "torch/x.py(3): f"),
        ("/srv/u/.venv/lib/python3.11/site-packages/a/b.py(3): f", "a/b.py(3): f"),
        ("torch/nn/x.py(3): f", "torch/nn/x.py(3): f"),
        ("wait in /srv/u/x.txt, 1/2 of /srv/u/", "wait in /srv/u/x.txt, 1/2 of /srv/u/"),
        ("/srv/u/a.py(1): f called /srv/u/b.py(2): g", "a.py(1): f called b.py(2): g"),
        ("a/srv/u/a.py(1): f", "a/srv/u/a.py(1): f"),
    ],
)  # fmt: skip
def test_paths(text: str, short: str) -> None:
    assert shorten_paths(text, "/srv/u") == short
    assert shorten_paths(text, "/srv/u/") == short


def test_the_working_folder_is_the_default(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert shorten_paths(f"{os.getcwd()}/a/b.py(1): f") == "a/b.py(1): f"
    assert shorten_paths("/elsewhere/b.py(1): f", "/") == "/elsewhere/b.py(1): f"


def test_a_working_folder_that_was_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    for text in ("/srv/u/train.py(12): step", "XX/srv/u/train.py(12): step"):
        assert shorten_paths(text) == text
