# SPDX-License-Identifier: Apache-2.0
"""ARCHITECTURE.md is a map of this tree: what it names exists, and every folder with sources is on it."""

from __future__ import annotations

import re
from pathlib import Path

from test_house_rules import ROOT, SOURCES, repository_files

TEXT = (ROOT / "ARCHITECTURE.md").read_text()
# Where a path in the text may begin: the walk speaks of `recorder/state/site.hpp`, the map of whole paths.
STARTS = [ROOT, ROOT / "csrc/include/fastprof", ROOT / "python/fastprof"]
PATH = re.compile(r"`([\w./-]+(?:/|\.(?:hpp|cpp|py|md|json|txt)))`")


def file_map() -> dict[str, str]:
    """Return folder -> description, the rows of the table under "File map"."""
    section = TEXT.split("## File map", 1)[1].split("\n## ", 1)[0]
    return dict(re.findall(r"^\| `([^`]+)` \| (.+) \|$", section, re.MULTILINE))


def exists(name: str, starts: list[Path]) -> bool:
    return any((start / name).exists() for start in starts)


def test_the_map_is_a_map() -> None:
    rows = file_map()
    assert len(rows) > 10
    assert [folder for folder in rows if not (ROOT / folder).is_dir()] == []


def test_what_is_named_exists() -> None:
    names = set(PATH.findall(TEXT))
    assert len(names) > 30
    inside_rows = {
        name: ROOT / folder for folder, row in file_map().items() for name in PATH.findall(row)
    }
    missing = [
        name
        for name in sorted(names)
        if not exists(name, STARTS)
        and not (name in inside_rows and exists(name, [inside_rows[name]]))
    ]
    assert missing == []


def test_every_source_folder_is_named() -> None:
    """By a row of its own, or as `name/` in the text when its parent has the row."""
    rows = {folder.rstrip("/") for folder in file_map()}
    folders = {
        p.parent.relative_to(ROOT).as_posix() for p in repository_files() if p.suffix in SOURCES
    }
    missing = [
        folder
        for folder in sorted(folders)
        if folder not in rows
        and not (
            any(folder.startswith(f"{row}/") for row in rows)
            and f"`{folder.rsplit('/', 1)[1]}/`" in TEXT
        )
        and not any(row.startswith(f"{folder}/") for row in rows)
        and f"`{folder}/`" not in TEXT
    ]
    assert missing == []
