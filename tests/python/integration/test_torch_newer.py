# SPDX-License-Identifier: Apache-2.0
"""A torch that is newer than the tables: the layout of the newest listed version is tried."""

from __future__ import annotations

import textwrap
import types
from pathlib import Path

import pytest
from known_torch import CXX11_ABI, VERSION, torch
from processes import run_python

from fastprof import _core
from fastprof.adapters.torch import unlisted as unlisted_torch
from fastprof.adapters.torch.unlisted import is_newer_than_listed

pytestmark = pytest.mark.integrations

NEWEST = ".".join(map(str, _core.torch_newest_release())) + ".0"
IS_NEWEST = all(
    known(VERSION) is not None and known(VERSION) == known(NEWEST)
    for known in (
        lambda version: _core.torch_known_layout(version, CXX11_ABI),
        lambda version: _core.torch_known_input_layout(version, CXX11_ABI),
        _core.torch_known_memory_layout,
    )
)


BARE = """
    import warnings, torch, fastprof
    torch.__version__ = {version!r}
    {before}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with fastprof.profile(record_shapes=True, profile_memory=True) as p:
            torch.ones(3).add(2)
    adds = [(e.input_shapes, e.cpu_memory_usage) for e in p.events() if e.name == "aten::add"]
    print(adds, p.missing.get("torch_ops", ""))
"""


def bare(version: str, before: str, folder: Path) -> str:
    """Return what a profile records of a torch that claims to have that version, without a compiler."""
    code = textwrap.dedent(BARE).format(version=version, before=before)
    environment = {"CXX": "no-such-compiler", "XDG_CACHE_HOME": str(folder)}
    return run_python(code, **environment).strip()


@pytest.mark.skipif(not IS_NEWEST, reason="the installed torch has another layout than the newest")
def test_a_newer_release_of_the_same_layout_needs_no_compiler(tmp_path: Path) -> None:
    assert bare("2.99.0", "", tmp_path) == "[([[3], [], []], 12)]"
    assert not list(tmp_path.rglob("torch-layout-*"))


@pytest.mark.skipif(not IS_NEWEST, reason="the installed torch has another layout than the newest")
def test_a_newer_release_of_another_layout_is_refused(tmp_path: Path) -> None:
    # The newest release's row, with another offset of the sequence number.
    before = (
        "from fastprof import _core; known = _core.torch_known_layout;"
        " _core.torch_known_layout = lambda v, abi:"
        " (lambda at: at and [*at[:3], at[3] + 8, *at[4:]])(known(v, abi))"
    )
    said = bare("2.99.0", before, tmp_path)
    assert said.startswith(
        "[] torch ops are not recorded: its layout differs from that of torch 2.15"
    )
    assert "needs a C++ compiler" in said


def test_a_declaration_that_changed_is_not_trusted(tmp_path: Path) -> None:
    header = Path(torch.__file__).parent / "include" / "ATen" / "record_function.h"
    text = header.read_text()
    moved = text.replace("double sampling_prob_ = 1.0;", "float sampling_prob_ = 1.0;")
    copied = tmp_path / "include" / "ATen" / "record_function.h"
    copied.parent.mkdir(parents=True)
    other = types.SimpleNamespace(__file__=str(tmp_path / "__init__.py"))
    for changed, said in ((text, ""), (moved, "RecordFunctionCallback is declared differently")):
        copied.write_text(changed)
        assert unlisted_torch._wrong_about_declarations(other) == said
    assert moved != text


def test_every_release_of_the_tables_is_known_whole() -> None:
    major, minor = _core.torch_newest_release()
    for release in [f"2.{n}.0" for n in range(7, minor + 1)] + [f"{major}.{minor}.3+cu999"]:
        assert _core.torch_known_layout(release, True) is not None
        assert _core.torch_known_input_layout(release, True) is not None
        assert _core.torch_known_memory_layout(release) is not None
        assert not is_newer_than_listed(release)
    for other in ("2.5.1", f"{major}.{minor + 1}.0", f"{major + 1}.0.0", "", "2", "two"):
        assert _core.torch_known_layout(other, True) is None
        assert is_newer_than_listed(other) == other.endswith(f".{minor + 1}.0") or other == "3.0.0"
