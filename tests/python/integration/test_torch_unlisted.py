# SPDX-License-Identifier: Apache-2.0
"""Inputs and memory of a torch that the tables do not list: its headers are probed, and the self-tests decide."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import textwrap
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from known_torch import CXX11_ABI, VERSION, needs_inputs, torch
from layout_cache import COMPILER, cache_folder, needs_compiler, use_cache  # noqa: F401
from processes import python

import fastprof
from fastprof import _core
from fastprof.adapters.torch import headers as torch_headers
from fastprof.adapters.torch import inputs as torch_inputs
from fastprof.adapters.torch.headers import LayoutError, layout_from_headers
from fastprof.adapters.torch.layout import FIELDS, INPUTS, MEMORY

HERE = Path(__file__).resolve().parent

pytestmark = [pytest.mark.integrations, needs_compiler]


def run(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    path = [str(HERE), *sys.path]
    return python(*arguments, PYTHONPATH=os.pathsep.join(path), **environment)


def program(code: str, **environment: str) -> str:
    ran = run("-c", textwrap.dedent(code), **environment)
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


def changed_torch(folder: Path, changes: dict[str, Callable[[str], str]]) -> Any:
    """Make a torch whose headers are those of the installed one with some changes."""
    installed = Path(torch.__file__).parent / "include"
    include = folder / "include"
    for header, change in changes.items():
        place, original = include, installed
        for part in Path(header).parts[:-1]:
            place, original = place / part, original / part
            place.mkdir(parents=True, exist_ok=True)
        (place / Path(header).name).write_text(change((installed / header).read_text()))
    for made in [include, *(p for p in include.rglob("*") if p.is_dir())]:
        for entry in (installed / made.relative_to(include)).iterdir():
            if not (made / entry.name).exists():
                (made / entry.name).symlink_to(entry)
    return types.SimpleNamespace(
        __version__=VERSION, __file__=str(folder / "__init__.py"), _C=torch._C
    )


@needs_inputs
def test_the_headers_say_what_the_tables_say(capfd: pytest.CaptureFixture[str]) -> None:
    inputs = _core.torch_known_input_layout(VERSION, True)
    memory = _core.torch_known_memory_layout(VERSION)
    ops = _core.torch_known_layout(torch.__version__, CXX11_ABI)
    assert inputs is not None and memory is not None and ops is not None
    found = dict(zip(INPUTS, layout_from_headers(torch, "inputs"), strict=True))
    assert found == dict(zip(INPUTS, inputs, strict=True))
    assert layout_from_headers(torch, "memory") == list(memory) and len(memory) == len(MEMORY)
    assert layout_from_headers(torch, "ops") == list(ops) and len(ops) == len(FIELDS)
    said = capfd.readouterr().err.splitlines()
    assert (
        len(said) == 1 and "compiled a probe against the headers of torch" in said[0]
    )  # one compilation for all
    torch_headers._answered.clear()
    assert layout_from_headers(torch, "inputs") == list(inputs)
    assert capfd.readouterr().err == ""  # from the cache


def test_a_compiler_with_arguments(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("CXX", f"{COMPILER} -g0")
    assert layout_from_headers(torch, "memory") == list(
        _core.torch_known_memory_layout(VERSION) or ()
    )


def test_a_cache_that_is_not_whole_is_made_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    # Compiles once, which takes 6 to 10 s, and copies the result from then on.
    compiler = tmp_path / "compiler"
    compiler.write_text(f"""#!/bin/sh
for last; do :; done
[ -e "$0.o" ] || {{ {COMPILER} "$@" && cp "$last" "$0.o"; }}
cp "$0.o" "$last"
""")
    compiler.chmod(0o755)
    monkeypatch.setenv("CXX", str(compiler))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    right = layout_from_headers(torch, "memory")
    (file,) = tmp_path.glob("fastprof/torch-layout-*.json")
    text = file.read_text()
    negative, one_less = re.sub(r"\[(\d+), ", r"[-\1, ", text), re.sub(r"\[\d+, ", "[", text)
    for wrong in ("", text[:100], negative, one_less):
        assert wrong != text
        file.write_text(wrong)
        torch_headers._answered.clear()
        capfd.readouterr()
        assert layout_from_headers(torch, "memory") == right
        assert "compiled a probe against the headers of torch" in capfd.readouterr().err
        assert file.read_text() == text


@needs_inputs
def test_shapes_and_memory_are_those_of_torch_profiler_all_the_same(tmp_path: Path) -> None:
    # Run the tests that compare with torch.profiler, with no version listed.
    ran = run(
        "-m", "pytest", "-q", "-p", "unlisted_torch", "-m", "integrations",
        str(HERE / "test_torch_inputs.py"), str(HERE / "test_torch_memory.py"),
        "-k", "profiler_has or kinetos_say or torch_profilers or averages or thread or nested",
        XDG_CACHE_HOME=str(tmp_path),
    )  # fmt: skip
    assert ran.returncode == 0, ran.stdout[-4000:]
    passed = re.search(r"(\d+) passed", ran.stdout)
    assert passed is not None and int(passed.group(1)) > 10
    assert list(tmp_path.glob("fastprof/torch-layout-*.json"))


@needs_inputs
def test_a_layout_that_no_table_has_is_read_as_well() -> None:
    # A key that no tensor has here: the numbers are tried first, and pass.
    code = """
        import torch, fastprof
        from fastprof import _core
        from fastprof.adapters.torch.layout import INPUTS
        assert not _core.torch_prepare(torch.__version__, True)
        layout = list(_core.torch_known_input_layout(torch.__version__, True))
        layout[INPUTS.index("unstrided_keys")] |= 1 << 58
        _core.torch_adopt_input_layout(layout)
        with fastprof.profile(record_shapes=True) as p:
            torch.ones(3, 5).add(2, alpha=3)
        (add,) = [e for e in p.events() if e.name == "aten::add"]
        print(p.missing, add.structured_input_strides, add.concrete_inputs)
    """
    assert program(code) == "{} [[5, 1], [], []] [None, None, 3]\n"


@needs_inputs
@pytest.mark.parametrize("field", INPUTS)
def test_a_wrong_number_is_refused_and_reads_nothing_wild(field: str) -> None:
    known = _core.torch_known_input_layout(VERSION, True)
    assert known is not None
    assert torch_inputs.wrong_about_known_inputs(torch, known) == ""
    small = field.startswith("tag_") or field == "symbolic_bits"
    for shift in (-1, 1, 8) if small else (-200, -8, -1, 1, 4, 8, 100, 4096, 1 << 20, 1 << 30):
        layout = list(known)
        bits = 64 if field.endswith("_keys") else 8 if small else 32
        layout[INPUTS.index(field)] = (layout[INPUTS.index(field)] + shift) % 2**bits
        try:
            wrong = torch_inputs.wrong_about_known_inputs(torch, layout)
        except fastprof.errors.ValueError as error:  # libtorch's own objects say so
            wrong = str(error)
        assert wrong != "", shift


@needs_inputs
def test_headers_that_differ_serve_for_what_they_still_say(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    def other_order(text: str) -> str:
        return re.sub(
            r"(virtual void reportMemoryUsage\(.*?;)(.*?)(virtual bool memoryProfilingEnabled.*?;)",
            r"\3\2\1", text, flags=re.DOTALL,
        )  # fmt: skip

    def other_name(text: str) -> str:
        return text.replace("has_symbolic_sizes_strides_", "renamed_")

    changes = {"c10/core/Allocator.h": other_order, "c10/core/TensorImpl.h": other_name}
    other = changed_torch(tmp_path, changes)
    known = _core.torch_known_layout(VERSION, CXX11_ABI)
    assert known is not None and layout_from_headers(other, "ops") == list(known)
    said = capfd.readouterr().err
    assert said.count("\n") == 1 and "failed for inputs, memory" in said
    with pytest.raises(LayoutError, match=r"cannot compile the probe.*another order"):
        layout_from_headers(other, "memory")
    with pytest.raises(LayoutError, match=r"cannot compile the probe.*has_symbolic"):
        layout_from_headers(other, "inputs")
    torch_headers._answered.clear()
    with pytest.raises(LayoutError, match="has_symbolic"):  # a refusal is cached, too
        layout_from_headers(other, "inputs")
    assert capfd.readouterr().err == ""

    code = f"""
        import torch, unlisted_torch, fastprof, warnings
        torch.__file__ = {other.__file__!r}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with fastprof.profile(record_shapes=True, profile_memory=True) as p:
                torch.ones(3)
        print("aten::ones" in [e.name for e in p.events()], sorted(p.missing.items()))
    """
    said = program(code)
    assert said.startswith("True [('profile_memory', ") and "('record_shapes', " in said
    assert "another order" in said and "has_symbolic" in said


@needs_inputs
def test_without_a_compiler_ops_of_a_listed_layout_are_recorded(tmp_path: Path) -> None:
    code = """
        import warnings, torch, fastprof
        from fastprof import _core
        _core.torch_known_input_layout = lambda version, cxx11_abi: None
        _core.torch_known_memory_layout = lambda version: None
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with fastprof.profile(record_shapes=True, profile_memory=True) as p:
                torch.ones(3)
        print("aten::ones" in [e.name for e in p.events()], p.missing["record_shapes"])
        print(p.missing["profile_memory"])
    """
    said = program(code, CXX="no-such-compiler", XDG_CACHE_HOME=str(tmp_path)).splitlines()
    assert said[0].startswith(
        "True torch ops are recorded without shapes and FLOPs: this version of fastprof"
    )
    for line in said:
        assert "needs a C++ compiler" in line and "install one, or set CXX" in line
