# SPDX-License-Identifier: Apache-2.0
"""The documentation's links, menu, references and tables of options agree with the tree. Needs no site builder."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from markdown_pages import broken_links, prose
from test_house_rules import repository_files

import build_site
import command_options
import cpp_reference
import header_reader
import python_reference

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"

PAGES = [
    *sorted(DOCS.glob("*.md")),
    *(path for path in repository_files() if path.suffix == ".md" and path.parent != DOCS),
]


@pytest.mark.parametrize("page", PAGES, ids=lambda p: str(p.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    assert broken_links(page) == []


def test_pages_named_in_prose_exist() -> None:
    named = {
        (page.name, name)
        for page in PAGES
        for name in re.findall(r"`(docs/\w+\.md)`", prose(page.read_text()))
    }
    assert len(named) > 5
    assert [pair for pair in named if not (ROOT / pair[1]).is_file()] == []


def test_every_page_is_in_the_menu() -> None:
    listed = [page for pages in build_site.MENU.values() for page in pages]
    own = {path.stem for path in (*DOCS.glob("*.md"), *ROOT.glob("*.md"))} - {"README"}
    assert set(listed) == own | {"python_reference", "cpp_reference"}
    assert len(listed) == len(set(listed))


def test_tables_of_options_are_those_of_the_parsers() -> None:
    text = command_options.PAGE.read_text()
    assert "`--max-total-growth PERCENT`" in text
    assert text == command_options.with_tables(text), (
        "run: python docs/site/command_options.py --write"
    )


def test_options_named_in_pages_exist() -> None:
    known = set(re.findall(r"`(--[\w-]+)", command_options.option_tables())) | {"--help"}
    lines = [
        line
        for page in [ROOT / "README.md", *sorted(DOCS.glob("*.md"))]
        for line in re.findall(
            r"(?:^|`)((?:python -m )?fastprof (?:run|report|explain|recover|diff|convert|doctor) [^`\n#]*)",
            page.read_text(),
            re.MULTILINE,
        )
    ]
    assert len(lines) > 15
    unknown = []
    for line in lines:
        # What follows the program belongs to it.
        words = (
            re.split(r"\s\S+\.py\b| -m \S+", line)[0].split() if " run " in line else line.split()
        )
        unknown += [w for w in words if w.startswith("--") and w.partition("=")[0] not in known]
    assert unknown == []


def test_the_python_reference_has_every_public_name() -> None:
    import fastprof

    public = {name for name in dir(fastprof) if not name.startswith("_")}
    assert python_reference.documented_names() == public
    page = python_reference.reference_page()
    shown = re.findall(r"^\.\. auto(?:class|function|data):: fastprof\.(\S+)$", page, re.MULTILINE)
    names = public - set(python_reference.MODULES)
    assert names | {"compat.KinetoStepTracker", "table.Site", "errors.StateError"} <= set(shown)


def test_the_cpp_reference_shows_the_headers() -> None:
    page = cpp_reference.reference_page()
    for text in (
        "explicit Session(SessionOptions options = {});",
        "FASTPROF_RANGE_ARGS(name, key, value, ...)",
        "`FASTPROF_RECORD_OUTPUTS`",
        "bool thread_local_only = false;",
        "inline Propagated<std::decay_t<Callable>> propagate(Callable&& f);",
        "constexpr uint32_t user = 1u << 0;  // ranges written by users",
        "enum class OverflowPolicy",
        "class UnavailableError",
    ):
        assert text in page, text
    assert "index_" not in page and "spill_thread_" not in page  # private members
    assert "return index_" not in page  # bodies


def test_every_macro_for_users_is_documented() -> None:
    text = header_reader.file_comment(cpp_reference.HEADERS / "macros.hpp")
    for name in header_reader.macros(cpp_reference.HEADERS / "macros.hpp"):
        assert f"  {name}(" in text, name
