# SPDX-License-Identifier: Apache-2.0
"""Importing fastprof: it is cheap and has no side effects, and all parts have the same version."""

from __future__ import annotations

import importlib
import pickle
import re

import pytest
from processes import python

import fastprof
from fastprof import _paths, compat

# Modules that programs import from the root of the package -> the folder that contains them.
PUBLIC_PATHS = {
    "devices": "record", "errors": "base", "itt": "record", "memory_attribution": "analysis",
    "profiler_legacy": "compat", "stages": "ranks", "table": "model", "trace_writers": "exporters",
}  # fmt: skip


def run(*arguments: str) -> str:
    result = python(*arguments, check=True)
    return result.stdout


def header_version() -> str:
    text = (_paths.include_dir() / "fastprof" / "base" / "config.hpp").read_text()
    match = re.search(r'#define FASTPROF_VERSION_STRING "([^"]+)"', text)
    assert match is not None
    return match[1]


def test_import_loads_neither_numpy_nor_the_native_part() -> None:
    heavy = ("numpy", "fastprof._core", "torch")
    code = f"import fastprof, sys; print([m for m in {heavy} if m in sys.modules])"
    assert run("-c", code).strip() == "[]"


@pytest.mark.parametrize("words", ["--help", "run --help", "config --includes"])
def test_help_and_paths_load_neither_numpy_nor_the_native_part(words: str) -> None:
    code = f"""
import atexit, sys
atexit.register(lambda: print([m for m in ("numpy", "fastprof._core") if m in sys.modules]))
from fastprof.cli.main import main
main({words.split()})
"""
    assert run("-c", code).splitlines()[-1] == "[]"


def test_the_schedule_loads_neither_numpy_nor_the_native_part() -> None:
    heavy = ("numpy", "fastprof._core")
    code = f"""
import fastprof, sys
fastprof.schedule, fastprof.ProfilerAction, fastprof.KinetoStepTracker, fastprof._ExperimentalConfig
fastprof.errors, fastprof.ProfilerActivity, fastprof.DeviceType, fastprof.emit_nvtx
print([m for m in {heavy} if m in sys.modules])
"""
    assert run("-c", code).strip() == "[]"


@pytest.mark.parametrize("module", PUBLIC_PATHS)
def test_a_public_path_has_the_very_objects_of_its_room(module: str) -> None:
    public = importlib.import_module(f"fastprof.{module}")
    inside = importlib.import_module(f"fastprof.{PUBLIC_PATHS[module]}.{module}")
    assert public.__all__ == inside.__all__
    for name in inside.__all__:
        assert getattr(public, name) is getattr(inside, name)


@pytest.mark.parametrize("name", fastprof.errors.__all__)
def test_errors_are_of_their_public_path(name: str) -> None:
    """Errors appear as fastprof.errors in tracebacks and pickles, which programs with other versions read."""
    kind = getattr(fastprof.errors, name)
    assert (kind.__module__, kind.__qualname__) == ("fastprof.errors", name)
    assert type(pickle.loads(pickle.dumps(kind("why")))) is kind


def test_a_first_table_loads_nothing_that_is_slow_to_load() -> None:
    slow = (
        "asyncio", "concurrent.futures", "socket", "ssl", "subprocess", "html", "importlib.abc",
        "tempfile", "shutil", "pandas", "torch", "fastprof.exporters", "fastprof.importers",
    )  # fmt: skip
    code = f"""
import sys, numpy
before = set(sys.modules)
import fastprof
with fastprof.profile() as p, fastprof.record_function("x"):
    pass
p.key_averages().table()
print([m for m in {slow} if m in sys.modules and m not in before])
"""
    assert run("-c", code).strip() == "[]"


def test_names_and_types_of_ranks_are_found_without_importing_them_at_first() -> None:
    code = """
import sys, typing
from fastprof import ranks
assert "fastprof.ranks.step_graph" not in sys.modules
assert set(ranks.__all__) <= set(dir(ranks))
for each in vars(ranks.Job).values():
    function = getattr(each, "fget", None) or getattr(each, "func", None) or each
    if callable(function) and not function.__name__.startswith("_"):
        typing.get_type_hints(function)
"""
    assert run("-c", code) == ""


def test_one_version_in_header_package_and_native_part() -> None:
    from fastprof import _core

    assert fastprof.__version__ == header_version() == _core.version
    assert run("-m", "fastprof", "--version").strip() == f"fastprof {fastprof.__version__}"


def test_the_inline_namespace_carries_the_version() -> None:
    """Two libraries with headers of different versions must share no symbol."""
    text = (_paths.include_dir() / "fastprof" / "base" / "config.hpp").read_text()
    match = re.search(r"inline namespace (\w+) __attribute__", text)
    assert match is not None
    assert match[1] == "v" + header_version().replace(".", "_")


def test_every_name_exists_and_those_for_pytorchs_sake_are_in_compat() -> None:
    places = (fastprof.table, fastprof.analysis, compat)
    elsewhere = {name for place in places for name in place.__all__}
    elsewhere |= {"compat", "itt", "profiler_legacy", "load_nsys"}  # documented pages, and load()
    elsewhere |= {"load_ipython_extension", "unload_ipython_extension"}  # called by IPython
    for name in fastprof.__all__:
        assert getattr(fastprof, name) is not None
        assert name in dir(fastprof) or name in elsewhere
    for name in compat.__all__:
        assert name not in dir(fastprof) and getattr(compat, name) is getattr(fastprof, name)
    assert len(dir(fastprof)) < 43


def test_unknown_name_is_an_attribute_error() -> None:
    assert not hasattr(fastprof, "no_such_name")
