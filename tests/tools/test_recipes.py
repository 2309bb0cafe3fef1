# SPDX-License-Identifier: Apache-2.0
"""The recipes of ARCHITECTURE.md: the Python ones are done in a copy of the package, of the others each name exists."""

from __future__ import annotations

import os
import re
import shutil
import sysconfig
from pathlib import Path
from typing import NamedTuple

import pytest
from processes import python

from fastprof import _core

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = "python/fastprof/"
_SECTION = (ROOT / "ARCHITECTURE.md").read_text().split("\n## Recipes\n")[1].split("\n## ")[0]
RECIPES = dict(re.findall(r"### (.+)\n\n((?s:.*?))(?=\n### |\Z)", _SECTION))


class Edit(NamedTuple):
    """What a step of a recipe asks for: `text` after `anchor` in a file, or a new file if `anchor` is empty."""

    path: str
    anchor: str
    text: str


EXPORTER = [
    Edit(
        PACKAGE + "exporters/names.py",
        "",
        "from fastprof.base.atomic_file import atomic_text\n"
        "def export_names(table, path):\n"
        "    with atomic_text(path) as file:\n"
        "        file.writelines(f'{name}\\n' for name in table.names)\n",
    ),
    Edit(
        PACKAGE + "_outputs.py",
        "FORMATS = {\n",
        '    "names": Format((".names",), "a name a line", "fastprof.exporters.names:export_names"),\n',
    ),
]
ANTI_PATTERN = [
    Edit(
        PACKAGE + "analysis/op_patterns.py",
        "# least number of repetitions that count as a loop\n",
        "def polls(rows):\n    found = rows.named('poll')\n    return found, rows.total_ns(found)\n",
    ),
    Edit(
        PACKAGE + "analysis/patterns.py",
        "PATTERNS = (\n",
        '    Pattern("Poll Pattern", "Wait for an event instead.", "time of the polls", ops.polls),\n',
    ),
]
OPTION = [
    Edit(PACKAGE + "profiler/profiling.py", "        tasks: bool = True,\n", "        note: str = '',\n"),
    Edit(
        PACKAGE + "profiler/profiling.py",
        "    False: everything nests by thread; see docs/tasks.md.\n",
        "    note: a text that recordings contain as metadata.\n",
    ),
    Edit(
        PACKAGE + "profiler/profiling.py",
        "self._own_arguments: dict[str, Any] = {\n",
        '            "note": note,\n',
    ),
    Edit(PACKAGE + "profiler/options.py", "    tasks: bool = True\n", "    note: str = ''\n"),
    Edit(PACKAGE + "profiler/options.py", "    tasks: bool = True,\n", "    note: str = '',\n"),
    Edit(PACKAGE + "profiler/options.py", "    return Options(\n", "        note=note,\n"),
    Edit(
        PACKAGE + "profiler/recording.py",
        "        self._report_spill_error()\n",
        "        metadata = {**metadata, 'note': self._options.note}\n",
    ),
]  # fmt: skip


def follow(tree: Path, recipe: str, edits: list[Edit]) -> None:
    """Do what a recipe says in a copy of the package; its numbered steps name the files of `edits` and no others."""
    steps = "\n".join(re.findall(r"(?m)^\d\. .*(?:\n   .*)*", RECIPES[recipe]))
    named = set(re.findall(r"`(python/[\w/.]+\.py)`", steps.replace("NAME", "names")))
    assert named == {edit.path for edit in edits}
    shutil.copytree(
        ROOT / PACKAGE, tree / "fastprof", ignore=shutil.ignore_patterns("__pycache__", "_core*")
    )
    native = Path(str(_core.__file__))
    shutil.copy(native, tree / "fastprof" / native.name)
    for edit in edits:
        path = tree / edit.path.removeprefix("python/")
        if edit.anchor:
            before = path.read_text()
            assert before.count(edit.anchor) == 1, edit
            path.write_text(before.replace(edit.anchor, edit.anchor + edit.text))
        else:
            assert not path.exists()
            path.write_text(edit.text)


def run(tree: Path, program: str) -> str:
    """Run a program with the copy. -S: an editable installation would import the original instead."""
    done = python(
        "-S", "-c", f"import fastprof\n{program}", cwd=tree, check=True,
        PYTHONPATH=f"{tree}{os.pathsep}{sysconfig.get_path('platlib')}",
    )  # fmt: skip
    return done.stdout


def test_an_exporter(tmp_path: Path) -> None:
    follow(tmp_path, "Add an exporter", EXPORTER)
    output = run(
        tmp_path,
        "with fastprof.profile() as prof, fastprof.record_function('mine'): pass\n"
        "prof.export('a.names')\n"
        "print(open('a.names').read())",
    )
    assert "mine\n" in output


def test_an_anti_pattern(tmp_path: Path) -> None:
    follow(tmp_path, "Add an anti-pattern, a finding of explain", ANTI_PATTERN)
    output = run(
        tmp_path,
        "import time\nfrom fastprof.analysis import explain\n"
        "with fastprof.profile() as prof:\n"
        "    for _ in range(3):\n"
        "        with fastprof.record_function('poll'): time.sleep(0.001)\n"
        "print(explain(prof))",
    )
    assert "Wait for an event instead." in output


def test_an_option_of_profile(tmp_path: Path) -> None:
    follow(tmp_path, "Add an option of profile()", OPTION)
    output = run(
        tmp_path,
        "with fastprof.profile(note='first try') as prof: pass\n"
        "print(prof.event_table.metadata['note'])",
    )
    assert output == "first try\n"


@pytest.mark.parametrize("recipe", RECIPES)
def test_each_step_names_what_exists(recipe: str) -> None:
    """In a step, a symbol without a path is in one of the files that the step names."""
    for step in re.findall(r"(?m)^\d\. .*(?:\n   .*)*", RECIPES[recipe]):
        names = [name for name in re.findall(r"`([^`]+)`", step) if "NAME" not in name]
        paths = [ROOT / name for name in names if "/" in name]
        assert [path for path in paths if not path.is_file()] == []
        text = "".join(path.read_text() for path in paths)
        if text:
            symbols = [n for n in names if "/" not in n and "." not in n and ":" not in n]
            assert [symbol for symbol in symbols if symbol not in text] == [], step


def test_all_recipes_are_here() -> None:
    assert len(RECIPES) == 5
