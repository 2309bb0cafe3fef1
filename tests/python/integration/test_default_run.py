# SPDX-License-Identifier: Apache-2.0
"""fastprof run without options answers for a program that has no ranges: calls with a bound, imports apart."""

from __future__ import annotations

import re
from pathlib import Path

from processes import python

import fastprof

PROGRAM = """
import time
import plain_package, slow_module

def small(x):
    return x + 1

def work():
    value = 0
    for _ in range(50_000):
        value = small(value)

def wait():
    time.sleep(0.05)

work()
wait()
"""


def run(folder: Path, *words: str) -> str:
    done = python("-m", "fastprof", *words, cwd=folder, check=True)
    return done.stdout + done.stderr


def test_calls_are_bounded_and_imports_apart(tmp_path: Path) -> None:
    (tmp_path / "main.py").write_text(PROGRAM)
    (tmp_path / "slow_module.py").write_text("import time\ntime.sleep(0.02)\n")
    package = tmp_path / "site-packages" / "plain_package"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("def f(): pass\nfor _ in range(100): f()\n")
    (tmp_path / "go.py").write_text(
        "import sys; sys.path.insert(0, 'site-packages'); exec(compile(open('main.py').read(), 'main.py', 'exec'))"
    )
    said = run(tmp_path, "run", "-o", "t.fastprof", "go.py")
    # The functions, longest first, without imports; what was counted only is said.
    first = re.findall(r"main\.py:\d+\((\w+)\)|(time\.sleep)", said)
    # A call of `small` may have lost its CPU.
    assert {"work", "time.sleep"} <= {function or sleep for function, sleep in first[:3]}
    assert re.search(r"Imports took .*slow_module \d+\.\d+ms", said)
    assert "import slow_module" not in said
    counted = re.search(
        r"Not recorded, for their number: ([\d,]+) calls .*main\.py\(5\): small", said
    )
    assert counted

    table = fastprof.load(tmp_path / "t.fastprof")
    names = [table.name(row) for row in range(len(table))]
    recorded = sum(name.endswith("main.py(5): small") for name in names)
    assert recorded + table.metadata["summed_calls"]["main.py(5): small"] == 50_000
    assert 1000 <= recorded < 50_000
    # Of an installed package, only the import; of the program's own module, its calls.
    assert "import plain_package" in names and "import slow_module" in names
    assert not any("site-packages" in name for name in names)
    assert names.count("<built-in function sleep>") == 2
    # Nothing of fastprof itself, and the program's name.
    assert not any("fastprof" in name or "runpy" in name for name in names)
    assert table.process_name == "go.py"

    # --calls records each call.
    run(tmp_path, "run", "--calls", "-o", "all.fastprof", "go.py")
    everything = fastprof.load(tmp_path / "all.fastprof")
    names = [everything.name(row) for row in range(len(everything))]
    assert sum(name.endswith("main.py(5): small") for name in names) == 50_000
    assert sum(name.endswith("plain_package/__init__.py(1): f") for name in names) == 100

    mine = run(tmp_path, "report", "--my-code", "all.fastprof")
    assert "wait" in mine and "small" in mine and "sleep>" not in mine and "json" not in mine
    assert "sleep>" in run(tmp_path, "report", "--imports", "--tree", "all.fastprof")


def test_imports_are_rows_of_their_own_beside_ranges(tmp_path: Path) -> None:
    (tmp_path / "slow_module.py").write_text("import time\ntime.sleep(0.3)\n")
    (tmp_path / "main.py").write_text(
        "import fastprof\nimport slow_module\nwith fastprof.record_function('work'): sum(range(1000))\n"
    )
    said = run(tmp_path, "run", "--no-trace", "--time-unit", "ms", "main.py")
    rows = dict(re.findall(r"^ +(main\.py|import slow_module|work) +([\d.]+)%", said, re.MULTILINE))
    assert float(rows["import slow_module"]) > float(rows["main.py"])
