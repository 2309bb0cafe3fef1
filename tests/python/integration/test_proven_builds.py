# SPDX-License-Identifier: Apache-2.0
"""The self-test of op inputs runs once per build of torch: later processes rely on a file in the cache folder."""

from __future__ import annotations

import json
import textwrap
from pathlib import Path

import pytest
from known_torch import needs_inputs
from processes import run_python

pytestmark = [pytest.mark.integrations, needs_inputs]

PROGRAM = textwrap.dedent("""
    import torch, fastprof
    original, calls = torch.einsum, []
    torch.einsum = lambda *inputs: (calls.append(inputs), original(*inputs))[1]
    with fastprof.profile(record_shapes=True, profile_memory=True) as p:
        torch.ones(3, 5).add(2)
    (add,) = [e for e in p.events() if e.name == "aten::add"]
    print(len(calls), add.input_shapes, add.cpu_memory_usage, p.missing)
""")
RIGHT = "[[3, 5], [], []] 60 {}"


def run(folder: Path) -> str:
    return run_python(PROGRAM, XDG_CACHE_HOME=str(folder)).strip()


def test_the_self_test_runs_once_per_build(tmp_path: Path) -> None:
    assert run(tmp_path) == f"1 {RIGHT}"
    assert run(tmp_path) == f"0 {RIGHT}"
    (file,) = tmp_path.glob("fastprof/torch-proven-*.json")
    kept = json.loads(file.read_text())
    for text in (
        json.dumps({**kept, "build": "0" * 64}),
        json.dumps({**kept, "storage_offset": 4096}),
        "[]",
    ):
        file.write_text(text)
        assert run(tmp_path) == f"1 {RIGHT}"  # and keeps it again
        assert json.loads(file.read_text()) == kept


def test_a_user_without_a_home_folder_gets_none_made(tmp_path: Path) -> None:
    code = "import os, pwd; del os.environ['HOME']; pwd.getpwuid = lambda uid: {}[uid]\n"
    code += "os.environ.pop('XDG_CACHE_HOME', None)\n" + f"os.chdir({str(tmp_path)!r})"
    assert run_python(code + PROGRAM).strip() == f"1 {RIGHT}"
    assert not [*tmp_path.iterdir()]


def test_a_cache_that_cannot_be_written_costs_only_the_test(tmp_path: Path) -> None:
    place = tmp_path / "a file"
    place.write_text("")
    assert run(place) == f"1 {RIGHT}"
