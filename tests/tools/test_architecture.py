# SPDX-License-Identifier: Apache-2.0
"""What ARCHITECTURE.md and the README.md beside the code name exists, and every source folder is described."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest
from test_house_rules import ROOT, SOURCES, repository_files

PAGES = [
    ROOT / "ARCHITECTURE.md",
    ROOT / "CONTRIBUTING.md",
    *(
        path
        for folder in ("csrc", "python", "tests")
        for path in repository_files()
        if path.name == "README.md" and path.is_relative_to(ROOT / folder)
    ),
]
# A path in backticks begins at the root, in the public headers, in the package, in the page's folder or one above, or
# in a folder that the same paragraph, row or list item names.
STARTS = [ROOT, ROOT / "csrc/include/fastprof", ROOT / "python/fastprof", ROOT / "csrc"]
PATH = re.compile(r"`([\w./-]+(?:/|\.(?:hpp|cpp|mm|h|py|md|js)))`")


BLOCK = re.compile(r"\n(?=[|\n-]|\d\. )")


def found(name: str, starts: list[Path]) -> list[Path]:
    return [start / name for start in starts if (start / name).exists()]


def paths_of(page: Path) -> tuple[set[Path], list[str]]:
    """Return the files and folders that a page names, and the names of those that do not exist."""
    named: set[Path] = set()
    unknown: list[str] = []
    above = [folder for folder in page.parents if folder.is_relative_to(ROOT)]
    for block in BLOCK.split(page.read_text()):
        starts = [*STARTS, *above]
        for name in PATH.findall(block):
            places = found(name, starts)
            named.update(places)
            if not places and "NAME" not in name:
                unknown.append(name)
            if name.endswith("/"):
                starts += places
    return named, unknown


@pytest.mark.parametrize("page", PAGES, ids=lambda p: str(p.relative_to(ROOT)))
def test_what_a_page_names_exists(page: Path) -> None:
    assert paths_of(page)[1] == []


def test_every_source_folder_is_described() -> None:
    """By a README.md, its __init__.py or a page that names it; outside of csrc and python, its parent suffices."""
    code = [ROOT / "csrc", ROOT / "python"]
    named = {path for page in PAGES for path in paths_of(page)[0]}

    def described(folder: Path) -> bool:
        init = folder / "__init__.py"
        return (
            folder in named
            or (folder / "README.md").exists()
            or (init.exists() and ast.get_docstring(ast.parse(init.read_text())) is not None)
        )

    folders = {p.parent for p in repository_files() if p.suffix in SOURCES} - {ROOT, *code}
    missing = [
        str(folder.relative_to(ROOT))
        for folder in sorted(folders)
        if not described(folder)
        and (
            any(folder.is_relative_to(top) for top in code)
            or not any(described(above) for above in folder.parents)
        )
    ]
    assert missing == []


def test_pages_stay_short() -> None:
    sizes = {page: len(page.read_bytes()) for page in PAGES}
    assert sizes.pop(ROOT / "ARCHITECTURE.md") <= 15_000
    beside_code = [p for p in sizes if p.is_relative_to(ROOT / "csrc") or "fastprof" in p.parts]
    assert [str(p) for p in beside_code if sizes[p] > 3_500] == []
