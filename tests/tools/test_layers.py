# SPDX-License-Identifier: Apache-2.0
"""The layer rule holds in this tree, and each kind of violation is caught in a made-up one."""

from __future__ import annotations

import ast
from pathlib import Path

import check_layers
import layer_rules
import pytest

ROOT = Path(__file__).resolve().parents[2]


def test_this_tree_follows_the_rules() -> None:
    assert check_layers.check(ROOT) == []


def test_every_source_is_looked_at() -> None:
    """The check reads files: a rule that reads none would always pass."""
    cpp = [p for p in (ROOT / "csrc").rglob("*") if p.suffix in check_layers.CPP_SUFFIXES]
    assert any(list(check_layers.includes(path)) for path in cpp)
    assert len(list((ROOT / "python" / "fastprof").rglob("*.py"))) > 3


def test_every_folder_has_its_line_and_every_line_its_folder() -> None:
    package = ROOT / "python" / "fastprof"
    files = list(package.rglob("*.py"))
    assert set(layer_rules.PYTHON) == {
        p.parent.name for p in files if p.parent.parent == package and p.name == "__init__.py"
    }
    assert set(layer_rules.ROOT) == {p.stem for p in files if p.parent == package}
    assert {f.split("/")[0] for f in layer_rules.NATIVE} <= set(layer_rules.PYTHON)
    assert all((package / place).exists() for place in layer_rules.NATIVE)


def test_every_cpp_folder_has_its_line_and_every_line_its_folder() -> None:
    csrc = ROOT / "csrc"
    public = csrc / "include" / "fastprof"
    folders = {path.parent for path in csrc.rglob("*") if path.suffix in check_layers.CPP_SUFFIXES}
    inside = {folder for folder in folders if folder.is_relative_to(public)}
    assert set(layer_rules.PUBLIC) == {folder.relative_to(public).as_posix() for folder in inside}
    assert set(layer_rules.COMPILED) == {r.relative_to(csrc).as_posix() for r in folders - inside}


@pytest.mark.parametrize("table", ["PUBLIC", "COMPILED", "PYTHON"])
def test_folders_name_only_folders_below_them(table: str) -> None:
    """The name of a folder stands for its subfolders: at least one of them is below."""
    below: set[str] = set()
    for folder, names in getattr(layer_rules, table).items():
        for name in names:
            assert any(check_layers.allows({name}, lower) for lower in below), (folder, name)
        below.add(folder)


def test_every_folder_says_what_lives_there() -> None:
    silent = [
        path
        for path in (ROOT / "python" / "fastprof").rglob("__init__.py")
        if not ast.get_docstring(ast.parse(path.read_text()))
    ]
    assert silent == []


VIOLATIONS = [
    # path, text, part of the message
    (
        "csrc/include/fastprof/base/a.hpp",
        '#include "fastprof/recorder/state/slot.hpp"',
        "base may not include recorder/state",
    ),
    (
        "csrc/include/fastprof/recorder/state/a.hpp",
        '#include "fastprof/recorder/store/pool.hpp"',
        "recorder/state may not include recorder/store",
    ),
    ("csrc/include/fastprof/base/a.hpp", '#include "fastprof/fastprof.hpp"', "base may not include ."),
    ("csrc/include/fastprof/base/a.hpp", '#include "a_neighbour.hpp"', "public headers include"),
    ("csrc/include/fastprof/novel/a.hpp", "#include <vector>", "not in PUBLIC"),
    ("csrc/novel/a.cpp", "#include <vector>", "not in COMPILED"),
    (
        "csrc/adapters/torch/layout/a.cpp",
        '#include "adapters/torch/ops/b.hpp"',
        "adapters/torch/layout may not include adapters/torch/ops",
    ),
    ("csrc/adapters/torch/ops/a.cpp", "  #  include <Python.h>", "csrc/bindings"),
    ("csrc/adapters/torch/ops/a.cpp", "#include <cuda_runtime.h>", "csrc/backends"),
    ("csrc/adapters/torch/ops/a.hpp", "#include <ATen/record_function.h>", "csrc/adapters/torch"),
    ("python/fastprof/model/a.py", "from fastprof import views", "model may not import fastprof.views"),
    ("python/fastprof/model/a.py", "from .. import views", "model may not import fastprof.views"),
    ("python/fastprof/model/a.py", "def f(): import fastprof.views", "model may not import fastprof.v"),
    ("python/fastprof/model/a.py", 'NEXT = "fastprof.views.render:b"', "model may not import fastprof.v"),
    ("python/fastprof/novel/a.py", "import json", "folder 'novel' is not in PYTHON"),
    ("python/fastprof/novel.py", "import json", "module 'novel' is not in ROOT"),
    ("python/fastprof/errors.py", "import fastprof.views", "errors may not import fastprof.views"),
    ("python/fastprof/views/a.py", "from fastprof import errors", "errors is for programs"),
    ("python/fastprof/views/a.py", "from fastprof import profile", "names of the package itself"),
    ("python/fastprof/cli/a.py", "import fastprof.integrations.jax", "may not import fastprof.integr"),
    ("python/fastprof/views/a.py", "from fastprof import _core", "may import fastprof._core"),
    ("python/fastprof/cli/a.py", "def f():\n    from .. import _core", "may import fastprof._core"),
]  # fmt: skip


@pytest.mark.parametrize(("path", "text", "message"), VIOLATIONS)
def test_a_violation_is_caught(tmp_path: Path, path: str, text: str, message: str) -> None:
    (tmp_path / "python" / "fastprof").mkdir(parents=True)
    file = tmp_path / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(f"{text}\n")
    found = check_layers.check(tmp_path)
    assert len(found) == 1
    assert message in found[0]
    assert found[0].startswith(path)
