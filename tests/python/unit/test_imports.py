# SPDX-License-Identifier: Apache-2.0
"""Imports of a table: time by package, what is folded, and that explain() keeps them apart from the program."""

from __future__ import annotations

from fastprof.analysis.explanation import explain
from fastprof.model.imports import Imports, own_code
from fastprof.model.sites import Site
from fastprof.model.table import EventTable

MS = 1_000_000
CALLS = [
    "/app/main.py(1): <module>",  # 0 to 1000 ms
    "import torch",  # 100 to 700
    "/env/lib/python3.11/site-packages/torch/__init__.py(1): <module>",  # 110 to 690
    "import numpy.core",  # 200 to 300
    "<built-in function loads>",  # 300 to 400
    "import helper",  # 750 to 800
    "/app/helper.py(1): <module>",  # 755 to 795
    "<built-in function sleep>",  # 760 to 790
    "/app/main.py(9): work",  # 850 to 950
    "/env/lib/python3.11/json/encoder.py(5): encode",  # 860 to 940
]
TIMES = [(0, 1000), (100, 700), (110, 690), (200, 300), (300, 400), (750, 800), (755, 795), (760, 790), (850, 950),
         (860, 940)]  # fmt: skip
TABLE = EventTable(
    {
        "start_ns": [a * MS for a, _ in TIMES],
        "end_ns": [b * MS for _, b in TIMES],
        "site": list(range(len(CALLS))),
        "track": [0] * len(CALLS),
    },
    sites=[Site(name, category="python_function", mask=8) for name in CALLS],
    t0_ns=0,
    t1_ns=1000 * MS,
)


def names(table: EventTable) -> list[str]:
    return [table.name(row) for row in range(len(table))]


def test_times_of_packages_sum_to_the_time_of_imports() -> None:
    imports = Imports(TABLE)
    assert imports.total_ns == 650 * MS
    assert imports.packages == [("torch", 500 * MS), ("numpy", 100 * MS), ("helper", 50 * MS)]
    assert imports.text() == "650.000ms: torch 500.000ms, numpy 100.000ms, helper 50.000ms"
    assert names(imports.folded()) == [CALLS[i] for i in (0, 1, 5, 8, 9)]
    # The program's own module, and what it calls, is no detail of an import.
    assert [CALLS[i] for i in imports.details.nonzero()[0]] == [CALLS[2], CALLS[4]]


def test_own_code_has_the_time_of_the_calls_that_it_makes() -> None:
    assert names(own_code(TABLE)) == [CALLS[i] for i in (0, 1, 5, 8)]


def test_imports_are_apart_from_the_program_and_the_finding_that_remains() -> None:
    found = explain(TABLE)
    assert found.total_ns == 350 * MS  # without imports
    assert [claim.ns for claim in found.where] == [250 * MS, 80 * MS, 20 * MS]
    assert found.waits == []  # the import slept
    (text, rows), *others = found.findings()
    assert text.startswith("imports took 650.000ms: torch 500.000ms") and rows[0] == 1
    assert others == []
    own = explain(TABLE, my_code=True)
    assert [claim.ns for claim in own.where] == [250 * MS, 100 * MS]
