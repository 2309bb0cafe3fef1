# SPDX-License-Identifier: Apache-2.0
"""Kinds of events, by which every view colours them."""

from __future__ import annotations

import pytest

from fastprof.model.site_kinds import KINDS, site_kinds
from fastprof.model.sites import SiteTable


@pytest.mark.parametrize(
    ("name", "category", "kind"),
    [
        ("load data", "user_annotation", "range"),
        ("aten::mm", "cpu_op", "op"),
        ("/srv/u/train.py(12): step", "python_function", "user code"),
        ("/srv/u/train.py(1): <module>", "python_function", "user code"),
        ("<string>(1): <module>", "python_function", "user code"),
        ("<frozen runpy>(88): _run_code", "python_function", "library"),
        ("/usr/lib/python3.11/json/decoder.py(343): raw_decode", "python_function", "library"),
        ("C:\\Python\\Lib\\site-packages\\x\\y.py(3): f", "python_function", "library"),
        ("<built-in method relu of type object>", "python_function", "library"),
        ("nn.Module: Linear_0", "python_function", "user code"),
        ("import torch.nn", "python_function", "import"),
        (
            "/v/lib/python3.11/site-packages/torch/__init__.py(1): <module>",
            "python_function",
            "import",
        ),
        ("<frozen importlib._bootstrap>(1165): _find_and_load", "python_function", "import"),
        ("<built-in method builtins.__import__>", "python_function", "import"),
        ("<built-in function __import__>", "python_function", "import"),
        ("<built-in method create_dynamic of module object>", "python_function", "import"),
        ("<built-in function sleep>", "python_function", "wait"),
        ("<built-in method acquire of _thread.lock object>", "python_function", "wait"),
    ],
)
def test_the_kind_of_an_event(name: str, category: str, kind: str) -> None:
    assert KINDS[site_kinds(SiteTable([name], category=[category]))[0]] == kind
